// SPDX-License-Identifier: Apache-2.0
//! What files say, which of them wins, and which are not believed.

use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("fermata-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn said_by(path: &Path) -> Result<Config> {
    Config::of([(path.to_owned(), Whose::Project)])
}

#[test]
fn every_key_is_a_setting() {
    let all = r#"
dir = "jobs"
mpi = "mpich"
every = "30m"
machine = "machine.toml"
site = "site"
keep = 3
files = "save"
encrypt = true
remote-shell = "rsh"
local-dir = "/local"
levels = "local,xor"
level-rate = "200MB"
service-cores = "0,2-3"
groups.rack = { r1 = "n[1-8]", r2 = "n9" }
mpirun-arg = ["-a", "b"]
save-on = "TERM,USR1"
requeue = false
retries = 2
on-commit = "true"
on-failure = "false"
metrics = "m.prom"
"#;
    let said = parse(Path::new("/etc/x/fermata.toml"), all).unwrap();
    let keys: Vec<&str> = KEYS.into_iter().filter(|key| !said.contains_key(*key)).collect();
    assert_eq!((said.len(), keys), (KEYS.len(), vec![]));
    assert_eq!(said["dir"], json!("/etc/x/jobs"), "beside its file");
    assert_eq!(said["local-dir"], json!("/local"));
    let settings: Settings = serde_json::from_value(Value::Object(said)).unwrap();
    assert_eq!((settings.every, settings.retries), (Some(Every::Ms(1_800_000)), Some(2)));
}

#[test]
fn the_later_file_wins_and_a_flag_over_all() {
    let scratch = Scratch::new("layers");
    let first = scratch.file("1", "every = \"30m\"\nkeep = 5\nmpi = \"openmpi\"\n", 0o600);
    let second = scratch.file("2", "keep = 7\nmetrics = \"m.prom\"\nencrypt = true\n", 0o644);
    let none = scratch.0.join("3");
    let files = [(&first, Whose::User), (&second, Whose::Project), (&none, Whose::Project)];
    let config = Config::of(files.map(|(path, whose)| (path.clone(), whose))).unwrap();
    let start = config.fill(Start { mpi: Some("mpich".into()), ..Start::default() });
    assert_eq!((start.mpi.as_deref(), start.keep), (Some("mpich"), Some(7)));
    assert_eq!(start.every, Some(Every::Ms(1_800_000)));
    let (mut end, mut hooks) = (EndArgs::default(), Hooks::default());
    config.fill_life(&mut end, &mut hooks);
    assert_eq!(hooks.metrics, Some(scratch.0.join("m.prom")), "beside its file");
    assert!(config.encrypts(None) && !config.encrypts(Some(false)));
    let source = |key| config.said(key).map(|(_, from)| PathBuf::from(from));
    assert_eq!((source("every"), source("keep")), (Some(first), Some(second)));
    assert_eq!(source("dir"), None);
    assert!(config.layers[2].found.is_none());
}

#[test]
fn levels_are_those_that_the_hosts_of_a_job_can_have() {
    let scratch = Scratch::new("levels");
    let text = "levels = \"local,xor,rs2,shared\"\ngroups.rack = { r1 = \"a,b\" }\n";
    let path = scratch.file("c", &format!("local-dir = \"/local\"\n{text}"), 0o600);
    let config = said_by(&path).unwrap();
    let hosts = |list: &[&str]| list.iter().map(|host| (*host).to_owned()).collect();
    let filled = |list: &[&str]| config.fill(Start { hosts: hosts(list), ..Start::default() });
    let levels = |list: &[&str]| filled(list).levels.map(|levels| levels.to_string());
    assert_eq!(levels(&["a:2", "b", "c"]).unwrap(), "local,xor,rs2,shared");
    assert_eq!(levels(&["a", "b"]).unwrap(), "local,xor,shared");
    assert_eq!((levels(&["a"]), levels(&[])), (None, None));
    assert_eq!(filled(&[]).groups.of(&hosts(&["b", "c"])), [["r1", "c alone"]]);
    let itself = Start { checkpointer: Checkpointer::Itself, ..filled(&["a", "b"]) };
    assert_eq!(config.fill(Start { levels: None, ..itself }).levels, None);
}

#[test]
fn a_file_that_others_may_have_written_is_not_read() {
    let scratch = Scratch::new("others");
    let evil = "on-commit = \"evil\"\n";
    let link = scratch.0.join("link");
    symlink(scratch.file("mine", evil, 0o600), &link).unwrap();
    let writable = [0o620, 0o602, 0o666].map(|mode| scratch.file(&format!("{mode}"), evil, mode));
    for path in writable.into_iter().chain([link.clone()]) {
        let config = said_by(&path).unwrap();
        assert!(matches!(config.layers[0].found, Some(Err(_))), "{}", path.display());
        assert_eq!(config.all, Settings::default());
    }
    let by_link = Config::of([(link, Whose::User)]).unwrap();
    assert_eq!(by_link.all.on_commit.as_deref(), Some("evil"), "what is in ~ is the user's");
    if effective_uid() != 0 {
        let path = scratch.file("site", evil, 0o644);
        let config = Config::of([(path, Whose::Site)]).unwrap();
        assert_eq!(config.all, Settings::default(), "it is not root's");
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_its_place() {
    let scratch = Scratch::new("nonsense");
    for (text, why) in [
        ("mpi = \"x\"\nkepe = 3\n", ":2: there is no setting 'kepe'\n  hint: 'keep'?"),
        ("on_commit = \"x\"\n", ":1: there is no setting 'on_commit'\n  hint: 'on-commit'?"),
        ("\n\n[run]\nkeep = 3\n", ":3: there is no setting 'run'\n  hint: there are dir, mpi, "),
        ("# x\nevery = \"soon\"\n", ":2: every: "),
        ("files = \"some\"\n", ":1: files: "),
        ("save-on = \"SOON\"\n", ":1: save-on: "),
        ("level-rate = \"9kB\"\n", ":1: level-rate: '9kB' is less than 100000 bytes"),
        ("service-cores = \"x\"\n", ":1: service-cores: 'x' is no list of processors"),
        ("levels = \"xor\"\n", ":1: levels: the first level is local"),
        (
            "keep = 3\n[groups.rack]\na = \"n[1-2]\"\nb = \"n2\"\n",
            ":2: groups: n2 is in two groups",
        ),
        ("keep = -1\n", ":1: keep: "),
        ("keep = \"3\"\n", ":1: keep: invalid type: string \"3\", expected u32"),
        ("mpi = \"x\"\nmpi = \"y\"\n", ":2: duplicate key"),
        ("mpi = \"x\"\nkeep = [\n", ":"),
        ("dir = \"/x/$FERMATA_NOBODY_SETS/y\"\n", ":1: dir: $FERMATA_NOBODY_SETS is not set"),
    ] {
        let path = scratch.file("c", text, 0o600);
        let error = said_by(&path).unwrap_err();
        let wanted = format!("{}{why}", path.display());
        assert!(error.to_string().starts_with(&wanted), "{error}\nbut not\n{wanted}");
        assert_eq!(crate::exit::code_of(&error), crate::exit::USAGE);
    }
}

#[test]
fn paths_are_as_a_shell_has_them() {
    let home = env::var("HOME").unwrap();
    assert_eq!(expanded("~/jobs"), Ok(format!("{home}/jobs")));
    assert_eq!(expanded("/scratch/${HOME}x"), Ok(format!("/scratch/{home}x")));
    assert_eq!(expanded("a$$b"), Ok("a$b".into()));
}
