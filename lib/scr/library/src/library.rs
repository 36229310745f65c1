// SPDX-License-Identifier: Apache-2.0
//! The calls, for one rank. All but `route_file` are collective, and return the same everywhere.

use crate::cache::Cache;
use crate::comm::Comm;
use crate::halting::Halting;
use crate::outputs::Output;
use crate::prefix::{Prefix, Summary};
use crate::problem::Problem;
use crate::restarts::Loaded;
use crate::sources;
use crate::survey::Survey;
use crate::team::Team;
use fermata_scr::descriptor::{Descriptor, groups, select};
use fermata_scr::need::{Need, Wanted, mtbf_s};
use fermata_scr::settings::unknown;
use fermata_scr::{Call, Config, Dataset, Files, Index, Phase, Place, Settings};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// What a program does after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It continues.
    Continue,
    /// It ends: a halt condition holds, and `SCR_HALT_EXIT` is set.
    Exit,
}

/// What a process is surrounded by.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// The name of its host.
    pub host: String,
    /// Its variables.
    pub variables: BTreeMap<String, String>,
    /// Its working directory.
    pub cwd: PathBuf,
    /// Milliseconds since 1970.
    pub clock: fn() -> u64,
}

/// A dataset in the cache.
#[derive(Clone, Debug)]
pub(crate) struct Cached {
    pub dataset: Dataset,
    /// In the list of stores.
    pub store: usize,
    /// The files of this rank; none: it is older than what the run has begun with.
    pub mine: Option<Files>,
}

/// The library, for one rank.
pub struct Scr<C> {
    pub(crate) team: Team<C>,
    pub(crate) config: Config,
    pub(crate) settings: Settings,
    pub(crate) prefix: Prefix,
    pub(crate) caches: Vec<Cache>,
    pub(crate) clock: fn() -> u64,
    pub(crate) phase: Phase,
    /// Where ranks are, by the name of the group that fails together.
    places: BTreeMap<String, Vec<Place>>,
    /// The same everywhere; rank 0 writes it.
    pub(crate) index: Index,
    /// By number, the same everywhere but for the files.
    pub(crate) cached: BTreeMap<u32, Cached>,
    /// The greatest number of a dataset.
    pub(crate) last: u32,
    /// Checkpoints so far.
    pub(crate) checkpoint: u32,
    pub(crate) output: Option<Output>,
    pub(crate) loaded: Option<Loaded>,
    /// Rank 0's counts.
    pub(crate) need: Need,
    pub(crate) halting: Halting,
    /// What the user has been told once.
    said: BTreeSet<String>,
}

impl<C: Comm> Scr<C> {
    /// `SCR_Init`. `program`: what it has configured.
    ///
    /// # Errors
    /// The configuration makes no sense, a directory cannot be used, or the MPI fails.
    pub fn init(
        comm: C,
        around: Surroundings,
        program: Config,
    ) -> Result<(Self, Outcome), Problem> {
        let Surroundings { host, variables, cwd, clock } = around;
        let team = Team::meet(comm, &host)?;
        let variables = sources::agreed(&team, variables)?;
        let mut config = program.with_environment(variables.clone());
        let texts = if team.is_first() {
            sources::texts(&config, &variables, &cwd)
        } else {
            Ok([None, None])
        };
        let texts = team.tell(0, &team.all(texts)?)?;
        sources::take_all(&mut config, &texts)?;
        let settings = Settings::read(&config)?;
        let own = (sources::prefix(&config, &cwd), sources::user(&config, &variables));
        let (root, user) = team.tell(0, &own)?;
        let job = team.tell(0, &sources::job(&config, &variables, &root))?;
        let store = |path: &str| Cache::new(&root.join(path), &user, &job);
        let caches = settings.stores.iter().map(|of| store(&of.path)).collect();
        let prefix = Prefix::new(root);
        let mut places = BTreeMap::new();
        for Descriptor { group, .. } in &settings.descriptors {
            let values = groups(&config, group, team.hosts())?;
            let of_rank = team.hosts().iter().cloned().zip(values);
            let of_rank = of_rank.map(|(host, group)| Place { host, group }).collect();
            places.insert(group.clone(), of_rank);
        }
        let machine = if team.is_first() { sources::machine(&variables, &cwd) } else { Ok(None) };
        let hosts: BTreeSet<&String> = team.hosts().iter().collect();
        let count = u32::try_from(hosts.len()).unwrap_or(u32::MAX);
        let wanted = Wanted {
            interval: settings.interval,
            seconds: settings.seconds,
            overhead: settings.overhead,
            mtbf_s: team.all(machine)?.and_then(|machine| mtbf_s(machine, count)),
        };
        let halting = Halting::new(&settings, sources::end_s(&variables));
        let mut scr = Self {
            team,
            config,
            settings,
            prefix,
            caches,
            clock,
            phase: Phase::Idle,
            places,
            index: Index::default(),
            cached: BTreeMap::new(),
            last: 0,
            checkpoint: 0,
            output: None,
            loaded: None,
            need: Need::new(wanted, seconds(clock())),
            halting,
            said: BTreeSet::new(),
        };
        let outcome = scr.begin()?;
        Ok((scr, outcome))
    }

    fn begin(&mut self) -> Result<Outcome, Problem> {
        for key in unknown(&self.config) {
            self.team.say(format!("there is no key {key}"));
        }
        let made = if self.team.is_first() { self.prefix.make() } else { Ok(()) };
        self.team.all(made)?;
        let index =
            if self.team.is_first() { self.prefix.read_index() } else { Ok(Index::default()) };
        self.index = self.team.tell(0, &self.team.all(index)?)?;
        let has_caches = self.settings.descriptors.iter().any(|descriptor| !descriptor.bypass);
        let make = has_caches && self.team.stands_for_host();
        let purge = self.settings.cache_purge && self.team.stands_for_host();
        let ready = self.caches.iter().try_for_each(|cache| {
            if make {
                cache.make()?;
            }
            if purge { cache.purge() } else { Ok(()) }
        });
        self.team.all(ready)?;
        if self.settings.prefix_purge {
            for id in self.index.entries().iter().map(|e| e.dataset.id).collect::<Vec<u32>>() {
                self.remove_from_prefix(id)?;
            }
        }
        self.begin_halting()?;
        match self.settings.current.clone() {
            Some(name) if self.make_current(&name)? => {}
            Some(name) => {
                self.team.say(format!("SCR_CURRENT={name}: there is no such checkpoint"));
                self.load()?;
            }
            None => self.load()?,
        }
        self.exit_if_halted()
    }

    /// The same time everywhere: rank 0's.
    pub(crate) fn now_ms(&self) -> Result<u64, Problem> {
        self.team.tell(0, &(self.clock)())
    }

    /// What is said at every debug level from `level` on.
    pub(crate) fn tell_user(&self, level: u32, text: impl AsRef<str>) {
        if self.settings.debug >= level {
            self.team.say(text);
        }
    }

    /// What is said only once.
    pub(crate) fn tell_once(&mut self, text: String) {
        if self.said.insert(text.clone()) {
            self.team.say(text);
        }
    }

    /// By what a dataset is kept.
    pub(crate) fn descriptor(&self, dataset: &Dataset) -> Result<&Descriptor, Problem> {
        let flags = dataset.flags;
        let checkpoint = flags.is_checkpoint().then_some(dataset.checkpoint);
        select(&self.settings.descriptors, checkpoint, flags.is_output())
            .ok_or_else(|| Problem::Wrong("no descriptor is for this dataset".into()))
    }

    /// Where ranks are, for the group of a descriptor.
    pub(crate) fn places(&self, descriptor: &Descriptor) -> &[Place] {
        self.places.get(&descriptor.group).map_or(&[], Vec::as_slice)
    }

    /// Collective: removes a dataset from all caches.
    pub(crate) fn remove_from_caches(&mut self, id: u32) -> Result<(), Problem> {
        self.cached.remove(&id);
        let stands = self.team.stands_for_host();
        let caches = self.caches.iter().filter(|_| stands);
        let removed = caches.map(|cache| cache.remove(id)).collect::<Result<Vec<()>, Problem>>();
        self.team.all(removed).map(drop)
    }

    /// Collective: removes a dataset from the prefix directory.
    pub(crate) fn remove_from_prefix(&mut self, id: u32) -> Result<(), Problem> {
        let Some(dataset) = self.index.drop(id) else { return Ok(()) };
        self.write_index()?;
        let first = self.team.is_first();
        let removed = if first { self.prefix.remove(&dataset) } else { Ok(()) };
        self.team.all(removed)
    }

    /// Collective: rank 0 writes the index.
    pub(crate) fn write_index(&self) -> Result<(), Problem> {
        let first = self.team.is_first();
        let written = if first { self.prefix.write_index(&self.index) } else { Ok(()) };
        self.team.all(written)
    }

    /// Collective: what rank 0 reads of a dataset in the prefix directory, if it can.
    pub(crate) fn summary(&self, dataset: &Dataset) -> Result<Option<Summary>, Problem> {
        let mut read = None;
        if self.team.is_first() {
            match self.prefix.read_summary(dataset) {
                Ok(summary) => read = Some(summary),
                Err(problem) => self.team.say(problem.to_string()),
            }
        }
        self.team.tell(0, &read)
    }

    /// Collective: what all caches have.
    pub(crate) fn survey(&self) -> Result<Survey, Problem> {
        if self.settings.distribute {
            Survey::of(&self.team, &self.caches)
        } else {
            Ok(Survey::default())
        }
    }

    /// `SCR_Need_checkpoint`
    ///
    /// # Errors
    /// The order of calls; the MPI.
    pub fn need_checkpoint(&mut self) -> Result<bool, Problem> {
        self.phase.allow(Call::NeedCheckpoint)?;
        let mut is_needed = false;
        if self.team.is_first() {
            let is_halted = self.halt_reason().is_some();
            is_needed = self.need.call(seconds((self.clock)()), is_halted).is_some();
        }
        self.team.first_says(is_needed)
    }

    /// `SCR_Finalize`
    ///
    /// # Errors
    /// The order of calls; what is only in the cache cannot be copied; the MPI.
    pub fn finalize(&mut self) -> Result<(), Problem> {
        self.phase.allow(Call::Finalize)?;
        self.phase = Phase::Over;
        let flushed = self.flush_newest();
        let noted = self.note_end();
        flushed.and(noted)
    }

    /// `SCR_Config` with a key alone, after `SCR_Init`.
    ///
    /// # Errors
    /// It is no key alone.
    pub fn query(&mut self, line: &str) -> Result<Option<String>, Problem> {
        let error = |error| Problem::Config { file: "SCR_Config".into(), error };
        match self.config.clone().request(line).map_err(error)? {
            fermata_scr::config::Request::Value(value) => Ok(value),
            _ => Ok(self.phase.allow(Call::Configure).map(|()| None)?),
        }
    }

    /// Tells the user that a call cannot be made now, if so.
    pub fn refuse(&self, call: Call) {
        if let Err(error) = self.phase.allow(call) {
            self.team.say(error.to_string());
        }
    }

    /// Tells the user why a call has failed, by rank 0.
    pub fn complain(&self, problem: &Problem) {
        if !matches!(problem, Problem::Elsewhere) {
            self.team.say(problem.to_string());
        }
    }

    /// The same, by this rank.
    pub fn complain_here(&self, problem: &Problem) {
        self.team.say_own(problem.to_string());
    }
}

/// For what counts in seconds.
pub(crate) fn seconds(ms: u64) -> f64 {
    ms as f64 / 1e3
}
