// SPDX-License-Identifier: Apache-2.0
//! The time that Open MPI's mpirun leaves the other ranks between SIGTERM and SIGKILL when one has
//! died, a second, several times over. Ranks that are begun again from a snapshot have nothing to
//! do with it, and until it is over nothing is begun. Ranks that a signal has saved have gone by
//! then, and the batch system that has sent it may not wait.

use std::path::Path;
use std::process::Command;

/// The same parameter by the names of Open MPI 4 and 5, and where a user's own value may stand.
const PARAMETER: &str = "odls_base_sigkill_timeout";
const NAMES: [(&str, &str); 2] =
    [("OMPI_MCA_", ".openmpi/mca-params.conf"), ("PRTE_MCA_", ".prte/mca-params.conf")];

/// Tells mpirun to leave none, unless its user has said how much: in the environment, among the
/// arguments for mpirun, or in a file of parameters.
pub fn give_none(mpirun: &mut Command, arguments: &[String]) {
    let home = std::env::var_os("HOME").unwrap_or_default();
    let has_variable = |name: &str| std::env::var_os(name).is_some();
    if !is_set(has_variable, arguments, Path::new(&home)) {
        for (prefix, _) in NAMES {
            mpirun.env(format!("{prefix}{PARAMETER}"), "0");
        }
    }
}

fn is_set(has_variable: impl Fn(&str) -> bool, arguments: &[String], home: &Path) -> bool {
    let in_file = |file: &str| {
        let text = std::fs::read_to_string(home.join(file)).unwrap_or_default();
        text.lines().any(|line| line.split('=').next().is_some_and(|key| key.trim() == PARAMETER))
    };
    arguments.iter().any(|word| word == PARAMETER)
        || NAMES.iter().any(|(prefix, _)| has_variable(&format!("{prefix}{PARAMETER}")))
        || NAMES.iter().any(|(_, file)| in_file(file))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_users_own_value_stays() {
        let home = std::env::temp_dir().join(format!("fermata-grace-{}", std::process::id()));
        std::fs::create_dir_all(home.join(".openmpi")).unwrap();
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert!(!is_set(|_| false, &words("--mca btl self,tcp"), &home));
        assert!(is_set(|_| false, &words("--mca odls_base_sigkill_timeout 5"), &home));
        assert!(is_set(|name| name == "OMPI_MCA_odls_base_sigkill_timeout", &[], &home));
        assert!(is_set(|name| name == "PRTE_MCA_odls_base_sigkill_timeout", &[], &home));
        let file = home.join(".openmpi/mca-params.conf");
        std::fs::write(&file, "# odls_base_sigkill_timeout = 2\nbtl = self\n").unwrap();
        assert!(!is_set(|_| false, &[], &home));
        std::fs::write(&file, "btl = self\nodls_base_sigkill_timeout = 2\n").unwrap();
        assert!(is_set(|_| false, &[], &home));
        std::fs::remove_dir_all(&home).unwrap();
    }
}
