// SPDX-License-Identifier: Apache-2.0
//! Looks at an application before anything is started: can it be run at all, and which front end
//! does it need? What cannot work is refused here, by name, rather than in N ranks at once.

use crate::mpi::Family;
use crate::problem::{refused, usage};
use crate::registry::Prefix;
use anyhow::{Context, Result};
use fermata_types::{ELF_MACHINE, words};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const ELF_CLASS_64: u8 = 2;
const ELF_LITTLE: u8 = 1;
const ELF_EXEC: u16 = 2;
const ELF_DYN: u16 = 3;
const PT_INTERP: u32 = 3;
const SCRIPT_DEPTH_MAX: u32 = 4;
/// Enough for the header and the program headers of any program.
const HEAD_BYTES: u64 = 64 * 1024;

/// A program that can be run.
#[derive(Clone, Debug)]
pub struct App {
    /// argv for the launcher; the first is an ELF program.
    pub argv: Vec<OsString>,
    /// Its ld.so.
    interpreter: String,
}

/// What the application is linked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Front {
    /// Path below `front/`.
    pub library: &'static str,
    /// The word manifests use.
    pub name: &'static str,
    /// The family that needs no translation.
    pub family: Family,
}

/// Every front end, by the soname it stands for.
const FRONTS: [Front; 3] = [
    Front { library: "ompi/libmpi.so.40", name: "ompi", family: Family::OpenMpi },
    Front { library: "mpich/libmpich.so.12", name: "mpich", family: Family::Mpich },
    Front { library: "mpich/libmpi.so.12", name: "mpich", family: Family::Mpich },
];

impl App {
    /// Finds and checks the application of a command line.
    pub fn resolve(argv: &[OsString]) -> Result<Self> {
        let (name, arguments) =
            argv.split_first().ok_or_else(|| usage("no program given; write it after --"))?;
        let path = find_program(name)?;
        let mut argv = vec![path.into_os_string()];
        argv.extend_from_slice(arguments);
        for _ in 0..SCRIPT_DEPTH_MAX {
            let head = read_head(Path::new(&argv[0]))?;
            let Some(line) = head.strip_prefix(b"#!") else {
                let interpreter = check_elf(&words::shown(&argv[0]), &head)?;
                return Ok(Self { argv, interpreter });
            };
            argv = through_interpreter(line, argv)?;
        }
        Err(refused(format!("'{}' is a script of a script of ...", words::shown(name))))
    }

    /// The family of the MPI that the program is linked to, if it is.
    pub fn family(&self) -> Result<Option<Family>> {
        Ok(self.linked()?.map(|front| front.family))
    }

    fn linked(&self) -> Result<Option<Front>> {
        let listing = self.libraries()?;
        Ok(FRONTS.into_iter().find(|front| front.is_in(&listing)))
    }

    /// The front end that `wanted` names, or that the program's libraries tell.
    pub fn front(&self, wanted: Option<&str>, lower: Option<Family>) -> Result<Front> {
        if let Some(name) = wanted {
            let name = if name == "openmpi" { "ompi" } else { name };
            return FRONTS
                .into_iter()
                .find(|front| front.name == name || front.library == name)
                .ok_or_else(|| usage(format!("no front end '{name}'; there are: ompi, mpich")));
        }
        // A program that loads MPI later (a Python module), or starts one that does, most likely
        // means the family it is being run with. It is a guess for the record: the launcher gives
        // every program the front end that it asks for.
        let family = lower.unwrap_or(Family::OpenMpi);
        let fallback = if family == Family::Mpich { 1 } else { 0 };
        Ok(self.linked()?.unwrap_or(FRONTS[fallback]))
    }

    /// What its own ld.so would load.
    fn libraries(&self) -> Result<String> {
        let output = Command::new(&self.interpreter)
            .arg("--list")
            .arg(&self.argv[0])
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot run {}", self.interpreter))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Front {
    /// Is the program of this listing linked to it?
    fn is_in(&self, listing: &str) -> bool {
        let soname = self.library.rsplit('/').next().unwrap_or_default();
        listing.lines().any(|line| line.split_whitespace().next() == Some(soname))
    }

    /// Its library in the installed tree.
    pub fn path(&self, prefix: &Prefix) -> Result<PathBuf> {
        let path = prefix.front(self.library);
        if !path.exists() {
            return Err(refused(format!(
                "the front end {} is missing\n  hint: ./x build",
                path.display()
            )));
        }
        Ok(path)
    }
}

fn find_program(name: &OsStr) -> Result<PathBuf> {
    let shown = words::shown(name);
    let runnable = |path: &Path| {
        path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        if runnable(&path) {
            return Ok(path);
        }
        let why = match (path.is_dir(), path.exists()) {
            (true, _) => "is a directory\n  hint: name the program in it".into(),
            (_, true) => format!("is not executable\n  hint: chmod +x {shown}"),
            _ => format!("does not exist\n  hint: seen from {}", cwd()),
        };
        return Err(refused(format!("the program {shown} {why}")));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|candidate| runnable(candidate))
        .ok_or_else(|| {
            refused(format!(
                "the program '{shown}' is not in PATH\n  hint: write ./{shown} if it is here"
            ))
        })
}

fn cwd() -> String {
    std::env::current_dir().map_or_else(|e| e.to_string(), |dir| dir.display().to_string())
}

fn read_head(path: &Path) -> Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path)
        .and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head))
        .with_context(|| format!("cannot read the program {}", path.display()))?;
    Ok(head)
}

/// "#!/usr/bin/env python3" + [script, args] -> [interpreter, argument, script, args]
fn through_interpreter(line: &[u8], argv: Vec<OsString>) -> Result<Vec<OsString>> {
    let line = line.split(|b| *b == b'\n').next().unwrap_or_default().trim_ascii();
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let (program, argument) = line.split_at(end);
    let argument = argument.trim_ascii();
    let is_env = program.rsplit(|b| *b == b'/').next() == Some(b"env");
    let is_name = !argument.is_empty() && argument[0] != b'-' && !argument.contains(&b' ');
    let mut out = Vec::new();
    if is_env && is_name {
        // env would only look the name up in PATH and be gone.
        out.push(find_program(OsStr::from_bytes(argument))?.into_os_string());
    } else {
        out.push(find_program(OsStr::from_bytes(program))?.into_os_string());
        out.extend(
            Some(argument)
                .filter(|text| !text.is_empty())
                .map(|text| OsStr::from_bytes(text).to_owned()),
        );
    }
    out.extend(argv);
    Ok(out)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<usize> {
    let value = u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?);
    usize::try_from(value).ok()
}

/// The path of the program's ld.so, or why it cannot be run.
fn check_elf(name: &str, head: &[u8]) -> Result<String> {
    let no = |why: &str, hint: &str| {
        Err(refused(format!("{name} cannot be run: {why}\n  hint: {hint}")))
    };
    if head.len() < 64 || !head.starts_with(b"\x7fELF") {
        return no(
            "it is neither an ELF program nor a script with #!",
            "a script needs a first line such as #!/bin/sh",
        );
    }
    if head[4] != ELF_CLASS_64 || head[5] != ELF_LITTLE {
        return no("it is not a 64-bit program", "build it without -m32, for x86-64");
    }
    if u16_at(head, 18) != Some(ELF_MACHINE) {
        return no("it is for another machine than x86-64", "build it on this machine");
    }
    if !matches!(u16_at(head, 16), Some(ELF_EXEC | ELF_DYN)) {
        return no("it is an object file or a core dump, not a program", "link it");
    }
    match interpreter(head) {
        Some(path) => Ok(path),
        None => no(
            "it is statically linked, so no MPI front end can be put into it",
            "link it dynamically, without -static",
        ),
    }
}

fn interpreter(head: &[u8]) -> Option<String> {
    let table = u64_at(head, 32)?;
    let entry_bytes = usize::from(u16_at(head, 54)?);
    let count = usize::from(u16_at(head, 56)?);
    for i in 0..count {
        let entry = head.get(table.checked_add(i * entry_bytes)?..)?;
        let kind = u32::from_le_bytes(entry.get(..4)?.try_into().ok()?);
        if kind != PT_INTERP {
            continue;
        }
        let offset = u64_at(entry, 8)?;
        let bytes = u64_at(entry, 32)?;
        let text = head.get(offset..offset.checked_add(bytes)?)?;
        return Some(String::from_utf8_lossy(text).trim_end_matches('\0').into());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Problem;

    fn resolve(argv: &[&str]) -> Result<App> {
        let argv: Vec<OsString> = argv.iter().map(OsString::from).collect();
        App::resolve(&argv)
    }

    #[test]
    fn a_program_is_found_in_path() {
        let app = resolve(&["sh", "-c", "true"]).unwrap();
        assert!(Path::new(&app.argv[0]).ends_with("sh"));
        assert!(app.interpreter.contains("ld-linux"));
    }

    #[test]
    fn what_cannot_run_is_refused() {
        for name in ["no-such-program", "./no/such/program", "/etc/passwd", "/"] {
            let error = resolve(&[name]).unwrap_err();
            let problem = error.downcast_ref::<Problem>();
            assert!(matches!(problem, Some(Problem::Refused(_))), "{name}: {error}");
        }
        assert!(check_elf("x", b"\x7fELF").is_err());
        assert!(resolve(&[]).is_err());
    }

    #[test]
    fn static_and_foreign_programs_are_named() {
        let mut head = vec![0; 64];
        head[..6].copy_from_slice(b"\x7fELF\x02\x01");
        head[16] = 2;
        head[18..20].copy_from_slice(&ELF_MACHINE.to_le_bytes());
        let text = check_elf("x", &head).unwrap_err().to_string();
        assert!(text.contains("statically"), "{text}");
        head[18] = 183;
        let text = check_elf("x", &head).unwrap_err().to_string();
        assert!(text.contains("another machine"), "{text}");
        head[4] = 1;
        let text = check_elf("x", &head).unwrap_err().to_string();
        assert!(text.contains("64-bit"), "{text}");
    }

    #[test]
    fn scripts_go_through_their_interpreter() {
        let argv = vec![OsString::from("./s"), OsString::from("a")];
        let out = through_interpreter(b"/usr/bin/env sh\nx", argv.clone()).unwrap();
        assert!(Path::new(&out[0]).ends_with("sh") && out[1..] == ["./s", "a"]);
        let out = through_interpreter(b"/bin/sh -e\n", argv).unwrap();
        assert_eq!(out, ["/bin/sh", "-e", "./s", "a"]);
    }
}
