// SPDX-License-Identifier: Apache-2.0
//! Names of jobs and of registered MPIs.

use crate::problem::usage;
use anyhow::Result;
use std::ffi::OsStr;
use std::path::Path;

/// What a job's name may consist of, beside letters and digits.
const NAME_SIGNS: &str = "._-+";
const PROGRAM_IN_NAME_MAX: usize = 40;

/// The name of a program as a part of a job's name.
pub fn name_after(program: &OsStr) -> String {
    let name = Path::new(program).file_name().unwrap_or("job".as_ref()).to_string_lossy();
    let name = name.trim_start_matches('.');
    let fine = |c: char| if NAME_SIGNS.contains(c) || c.is_ascii_alphanumeric() { c } else { '_' };
    name.chars().map(fine).take(PROGRAM_IN_NAME_MAX).collect()
}

/// A name becomes a directory and goes into every image.
pub fn check_name(name: &str) -> Result<()> {
    let fine = |c: char| c.is_ascii_alphanumeric() || NAME_SIGNS.contains(c);
    if name.is_empty() || name.len() > 63 || name.starts_with('.') || !name.chars().all(fine) {
        return Err(usage(format!(
            "'{name}' is no job name: use up to 63 letters, digits and . _ - +"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_called_after_its_program() {
        assert_eq!(name_after(OsStr::new("/opt/bin/lmp serial")), "lmp_serial");
        assert_eq!(name_after(OsStr::new("../.hidden")), "hidden");
        for program in ["lmp", ".a b", &"x".repeat(99)] {
            assert!(check_name(&name_after(OsStr::new(program))).is_ok(), "{program}");
        }
    }

    #[test]
    fn a_name_that_is_no_directory_of_its_own_is_refused() {
        for name in ["", ".", "..", ".a", "a/b", "a b", &"x".repeat(64)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
