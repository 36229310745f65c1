// SPDX-License-Identifier: Apache-2.0
//! What a rank is started with: everything that has been found out, as plain data, and the
//! launcher's command line that it makes. (The launcher's side is runtime/launcher/main.cpp.)

use std::ffi::OsString;
use std::path::PathBuf;

/// All that the launcher is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankPlan {
    /// The launcher's program.
    pub launcher: PathBuf,
    /// The back end of the MPI below.
    pub lower: PathBuf,
    /// Where front ends are.
    pub fronts: PathBuf,
    /// The finder of FS prefixes.
    pub sites_tool: PathBuf,
    /// Its lists that came with the MPIs.
    pub sites_shared: PathBuf,
    /// Where new ones are kept, if they can be.
    pub sites_cache: Option<PathBuf>,
    /// This program.
    pub fermata: PathBuf,
    /// Where the agent connects; empty: nowhere.
    pub socket: String,
    /// The job's name.
    pub job: String,
    /// Number in MPI_COMM_WORLD.
    pub rank: u32,
    /// What makes collective calls whole.
    pub collectives: String,
    /// Where ranks leave word of how they end.
    pub ranks: PathBuf,
    /// The file of the user's key.
    pub key: Option<PathBuf>,
    /// Images are encrypted.
    pub encrypt: bool,
    /// Environment of the lower half alone.
    pub lower_env: Vec<(String, String)>,
    /// What a program that saves itself has saved.
    pub state: Option<PathBuf>,
    /// The image that it is restored from.
    pub image: Option<ImagePlan>,
    /// Which files' contents are saved, as the launcher reads it.
    pub save_files: Option<String>,
    /// Numbers of the signals that save the job.
    pub save_on: Vec<u8>,
    /// The program and its arguments.
    pub argv: Vec<OsString>,
}

/// What a rank is restored from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImagePlan {
    /// The snapshot.
    pub snapshot: PathBuf,
    /// The image's MAC, as the manifest lists it.
    pub mac: Option<String>,
    /// What has moved: from, to.
    pub moves: Vec<(String, String)>,
}

impl RankPlan {
    /// The launcher's arguments.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut words = Words::default();
        words.option("--lower", &self.lower);
        words.option("--fronts", &self.fronts);
        words.option("--sites-tool", &self.sites_tool);
        words.option("--sites-shared", &self.sites_shared);
        words.some("--sites-cache", self.sites_cache.as_ref());
        words.option("--fermata", &self.fermata);
        words.option("--socket", &self.socket);
        words.option("--job", &self.job);
        words.option("--rank", self.rank.to_string());
        words.option("--collectives", &self.collectives);
        words.option("--ranks", &self.ranks);
        words.some("--key", self.key.as_ref());
        words.some("--encrypt", self.encrypt.then_some("yes"));
        // What the user pre-loads is meant for the application.
        words.option("--lower-env", "LD_PRELOAD=");
        for (name, value) in &self.lower_env {
            words.option("--lower-env", format!("{name}={value}"));
        }
        words.some("--state", self.state.as_ref());
        if let Some(image) = &self.image {
            words.option("--restore", &image.snapshot);
            words.some("--image-mac", image.mac.as_ref());
            for (from, to) in &image.moves {
                words.option("--map-from", from);
                words.option("--map-to", to);
            }
        }
        words.some("--save-files", self.save_files.as_ref());
        let save_on: Vec<String> = self.save_on.iter().map(u8::to_string).collect();
        words.some("--save-on", (!save_on.is_empty()).then(|| save_on.join(",")));
        words.0.push("--".into());
        words.0.extend(self.argv.iter().cloned());
        words.0
    }
}

#[derive(Default)]
struct Words(Vec<OsString>);

impl Words {
    fn option(&mut self, name: &str, value: impl Into<OsString>) {
        self.0.extend([name.into(), value.into()]);
    }

    fn some(&mut self, name: &str, value: Option<impl Into<OsString>>) {
        if let Some(value) = value {
            self.option(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> RankPlan {
        RankPlan {
            lower: "/l/openmpi".into(),
            socket: "/run/s".into(),
            job: "work".into(),
            rank: 3,
            collectives: "clock".into(),
            argv: vec!["/bin/app".into(), "--rank".into()],
            ..RankPlan::default()
        }
    }

    /// The values of an option, before the program.
    fn values(plan: &RankPlan, name: &str) -> Vec<String> {
        let words = plan.arguments();
        let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
        let pairs = words[..end].chunks_exact(2).filter(|pair| pair[0] == name);
        pairs.map(|pair| pair[1].to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_rank_is_told_what_there_is_and_no_more() {
        let plan = plan();
        assert_eq!(values(&plan, "--rank"), ["3"]);
        assert_eq!(values(&plan, "--lower-env"), ["LD_PRELOAD="]);
        for absent in [
            "--sites-cache",
            "--key",
            "--encrypt",
            "--state",
            "--restore",
            "--image-mac",
            "--save-on",
        ] {
            assert!(values(&plan, absent).is_empty(), "{absent}");
        }
        let words = plan.arguments();
        assert_eq!(words[words.len() - 3..], ["--", "/bin/app", "--rank"]);
    }

    #[test]
    fn a_rank_that_is_restored_hears_of_its_image_and_of_each_move() {
        let moves = vec![("/a".into(), "/b".into()), ("/c".into(), "/d".into())];
        let image = ImagePlan { snapshot: "/s/7".into(), mac: Some("ab".into()), moves };
        let plan = RankPlan { image: Some(image), encrypt: true, save_on: vec![10, 15], ..plan() };
        assert_eq!(values(&plan, "--restore"), ["/s/7"]);
        assert_eq!(values(&plan, "--image-mac"), ["ab"]);
        assert_eq!(values(&plan, "--map-from"), ["/a", "/c"]);
        assert_eq!(values(&plan, "--map-to"), ["/b", "/d"]);
        assert_eq!(values(&plan, "--encrypt"), ["yes"]);
        assert_eq!(values(&plan, "--save-on"), ["10,15"]);
    }

    #[test]
    fn the_lower_half_has_no_library_of_the_users_pre_loaded() {
        let lower_env = vec![("A".to_owned(), "1".to_owned())];
        let plan = RankPlan { lower_env, ..plan() };
        assert_eq!(values(&plan, "--lower-env"), ["LD_PRELOAD=", "A=1"]);
    }
}
