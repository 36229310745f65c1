// SPDX-License-Identifier: Apache-2.0
//! Outputs: from `SCR_Start_output` to the prefix directory.

use crate::cache::Cache;
use crate::comm::Comm;
use crate::image::checksum;
use crate::library::{Cached, Outcome, Scr, seconds};
use crate::prefix::Summary;
use crate::problem::Problem;
use crate::protect::{Plan, protect};
use fermata_scr::arrange::weak;
use fermata_scr::{Call, Dataset, File, Files, Flags, Kept, Phase};
use std::fs;
use std::path::{Path, PathBuf};

/// Names are shorter than this: `SCR_MAX_FILENAME`.
pub(crate) const NAME_MAX: usize = 1024;

/// An output that has been started.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    pub dataset: Dataset,
    /// Its store; none: files are written to the prefix directory.
    store: Option<usize>,
    /// Paths below the prefix directory.
    paths: Vec<String>,
}

impl<C: Comm> Scr<C> {
    /// `SCR_Start_output`; without a name it is called by its number.
    ///
    /// # Errors
    /// The order of calls; a name or flags that cannot be, or are not the same everywhere; a
    /// directory cannot be made.
    pub fn start_output(&mut self, name: Option<&str>, flags: i32) -> Result<(), Problem> {
        self.phase.allow(Call::StartOutput)?;
        let mine = (name.map(str::to_owned), flags);
        let (name, bits) = self.team.tell(0, &mine)?;
        if !self.team.agree(mine == (name.clone(), bits))? {
            let why = "SCR_Start_output: name and flags are not the same on all ranks";
            return Err(Problem::Wrong(why.into()));
        }
        let flags = Flags::of(bits).ok_or_else(|| {
            Problem::Wrong(format!("SCR_Start_output: there are no flags {bits}"))
        })?;
        let id = self.last + 1;
        let name = name.unwrap_or_else(|| format!("scr.dataset.{id}"));
        if name.is_empty() || name.len() >= NAME_MAX {
            let why = format!("SCR_Start_output: a name has 1 to {} bytes", NAME_MAX - 1);
            return Err(Problem::Wrong(why));
        }
        let checkpoint = self.checkpoint + u32::from(flags.is_checkpoint());
        let ranks = self.team.size();
        let dataset = Dataset { id, name, flags, checkpoint, taken_ms: self.now_ms()?, ranks };
        self.need.begun(seconds((self.clock)()));
        let descriptor = self.descriptor(&dataset)?;
        let store = (!descriptor.bypass).then_some(descriptor.store);
        self.last = id;
        if store.is_none() {
            self.forget_name(&dataset.name)?;
        }
        if let Some(store) = store {
            self.make_room(store)?;
            // What somebody has left there under this number is of another course of the job.
            self.remove_from_caches(id)?;
            let made = self.caches[store].make_rank(id, self.team.rank());
            self.team.all(made)?;
        }
        self.checkpoint = checkpoint;
        self.output = Some(Output { dataset, store, paths: Vec::new() });
        self.phase = Phase::Output;
        Ok(())
    }

    /// The oldest go until there is room for one more.
    fn make_room(&mut self, store: usize) -> Result<(), Problem> {
        let count = self.settings.stores.get(store).map_or(1, |store| store.count.max(1)) as usize;
        loop {
            let of_store = self.cached.values().filter(|cached| cached.store == store);
            let ids: Vec<u32> = of_store.map(|cached| cached.dataset.id).collect();
            match ids.first() {
                Some(oldest) if ids.len() >= count => self.remove_from_caches(*oldest)?,
                _ => return Ok(()),
            }
        }
    }

    /// `SCR_Route_file`: where a program finds a file, or is to write it. Not collective.
    ///
    /// # Errors
    /// The order of calls; a name outside of the prefix directory, or the same for two files; in a
    /// restart: there is no such file.
    pub fn route_file(&mut self, name: &str, cwd: &Path) -> Result<PathBuf, Problem> {
        self.phase.allow(Call::RouteFile)?;
        match self.phase {
            Phase::Output => self.route_output(name, cwd),
            Phase::Restart => self.route_restart(name, cwd),
            _ => Ok(name.into()),
        }
    }

    fn route_output(&mut self, name: &str, cwd: &Path) -> Result<PathBuf, Problem> {
        let root = self.prefix.root().display().to_string();
        let outside = || Problem::Wrong(format!("SCR_Route_file: {name} is not below {root}"));
        let path = self.prefix.below(name, cwd).ok_or_else(outside)?;
        let rank = self.team.rank();
        let Some(output) = &mut self.output else { return Err(outside()) };
        let file = |path: &str| File { path: path.into(), bytes: 0, crc: None };
        let routed = match output.store {
            Some(store) => {
                let directory = self.caches[store].files(output.dataset.id, rank);
                directory.join(file(&path).name())
            }
            None => {
                let routed = self.prefix.path(&file(&path));
                let above = routed.parent().unwrap_or(&routed);
                fs::create_dir_all(above).map_err(Problem::file("make", above))?;
                routed
            }
        };
        if !output.paths.contains(&path) {
            let is_taken = |other: &&String| file(other).name() == file(&path).name();
            if let Some(other) =
                output.paths.iter().find(is_taken).filter(|_| output.store.is_some())
            {
                let why = format!("SCR_Route_file: {path} and {other} have the same name");
                return Err(Problem::Wrong(why));
            }
            output.paths.push(path);
        }
        Ok(routed)
    }

    /// `SCR_Complete_output`
    ///
    /// # Errors
    /// The order of calls; a rank's files are not valid, or not there; they cannot be kept, or not
    /// be copied where they have to be. The dataset is removed then, unless it is in the cache.
    pub fn complete_output(&mut self, is_valid: bool) -> Result<Outcome, Problem> {
        self.phase.allow(Call::CompleteOutput)?;
        self.phase = Phase::Idle;
        let Some(output) = self.output.take() else { return Ok(Outcome::Continue) };
        let kept = self.keep(&output, is_valid);
        let dataset = &output.dataset;
        if let Err(problem) = kept {
            self.discard(&output)?;
            if dataset.flags.is_checkpoint() {
                self.checkpoint -= 1;
            }
            return Err(problem);
        }
        let is_due = dataset.flags.is_checkpoint()
            && self.settings.flush > 0
            && dataset.checkpoint % self.settings.flush == 0;
        if output.store.is_some() && (is_due || dataset.flags.is_output()) {
            let flushed = self.flush(dataset.id);
            if dataset.flags.is_output() {
                flushed?;
                if !dataset.flags.is_checkpoint() {
                    self.remove_from_caches(dataset.id)?;
                }
            } else if let Err(problem) = flushed {
                self.complain(&problem);
                self.team.say(format!("{}: it stays in the cache only", dataset.name));
            }
        }
        let is_checkpoint = dataset.flags.is_checkpoint();
        self.need.ended(seconds((self.clock)()), is_checkpoint);
        self.tell_user(1, format!("{}: complete", dataset.name));
        if is_checkpoint {
            self.count_checkpoint()?;
            return self.exit_if_halted();
        }
        Ok(Outcome::Continue)
    }

    /// Lets a dataset exist: in the cache, or in the index.
    fn keep(&mut self, output: &Output, is_valid: bool) -> Result<(), Problem> {
        let Output { dataset, store, .. } = output;
        let mine = if is_valid { self.listed(output) } else { Err(refused(&dataset.name)) };
        let mine = self.team.all(mine)?;
        if let Some(store) = *store {
            let cache = self.caches[store].clone();
            self.protect(dataset, &cache, &mine)?;
            let cached = Cached { dataset: dataset.clone(), store, mine: Some(mine) };
            self.cached.insert(dataset.id, cached);
            return Ok(());
        }
        self.enter(dataset, &mine)
    }

    /// Collective: parities and copies of what lies in the cache, in a new arrangement.
    pub(crate) fn protect(
        &mut self,
        dataset: &Dataset,
        cache: &Cache,
        mine: &Files,
    ) -> Result<Kept, Problem> {
        let made_ms = self.now_ms()?;
        let descriptor = self.descriptor(dataset)?;
        let places = self.places(descriptor);
        let plan =
            Plan { places, scheme: descriptor.scheme, set_size: descriptor.set_size, made_ms };
        let kept = protect(&self.team, cache, dataset, mine, &plan)?;
        if let Some(group) = weak(&kept, places) {
            let text = format!("ranks are too few apart: datasets would not outlive {group}");
            self.tell_once(text);
        }
        Ok(kept)
    }

    /// The files of this rank as they are now.
    fn listed(&self, output: &Output) -> Result<Files, Problem> {
        let rank = self.team.rank();
        let mut files = Vec::new();
        for path in &output.paths {
            let mut file = File { path: path.clone(), bytes: 0, crc: None };
            if let Some(store) = output.store {
                let at = self.caches[store].files(output.dataset.id, rank).join(file.name());
                let (bytes, crc) = checksum(&at).map_err(Problem::file("read", &at))?;
                (file.bytes, file.crc) = (bytes, Some(crc));
            } else {
                let at = self.prefix.path(&file);
                file.bytes = fs::metadata(&at).map_err(Problem::file("read", &at))?.len();
            }
            files.push(file);
        }
        Ok(Files { rank, files })
    }

    fn discard(&mut self, output: &Output) -> Result<(), Problem> {
        if output.store.is_some() {
            return self.remove_from_caches(output.dataset.id);
        }
        let removed = output
            .paths
            .iter()
            .try_for_each(|path| self.prefix.remove_file(&self.prefix.root().join(path)));
        self.team.all(removed)
    }

    /// Collective: copies a dataset from the cache to the prefix directory.
    pub(crate) fn flush(&mut self, id: u32) -> Result<(), Problem> {
        let Some(Cached { dataset, store, mine: Some(mine) }) = self.cached.get(&id).cloned()
        else {
            return Ok(());
        };
        self.forget_name(&dataset.name)?;
        let rank = self.team.rank();
        let directory = self.caches[store].files(id, rank);
        let width = self.settings.flush_width;
        let mut copied = Ok(());
        for turn in 0..(self.team.size() as usize).div_ceil(width) {
            if rank as usize / width == turn {
                copied = mine
                    .files
                    .iter()
                    .try_for_each(|file| self.prefix.put(&directory.join(file.name()), file));
            }
            self.team.agree(true)?; // the next ones begin
        }
        self.team.all(copied)?;
        self.enter(&dataset, &mine)?;
        self.tell_user(1, format!("{}: copied to {}", dataset.name, self.prefix.root().display()));
        Ok(())
    }

    /// Collective: the index has no dataset of this name any more: its files are written over.
    fn forget_name(&mut self, name: &str) -> Result<(), Problem> {
        let Some(id) = self.index.get(name).map(|entry| entry.dataset.id) else { return Ok(()) };
        self.index.drop(id);
        self.write_index()?;
        let forgotten = if self.team.is_first() { self.prefix.forget(id) } else { Ok(()) };
        self.team.all(forgotten)
    }

    /// Collective: enters a dataset, whose files are in the prefix directory, into its index; what
    /// is beyond the window goes.
    fn enter(&mut self, dataset: &Dataset, mine: &Files) -> Result<(), Problem> {
        let ranks = self.team.gather(mine)?;
        let summary = Summary { dataset: dataset.clone(), ranks };
        let first = self.team.is_first();
        let written = if first { self.prefix.write_summary(&summary) } else { Ok(()) };
        self.team.all(written)?;
        self.index.add(dataset.clone());
        self.write_index()?;
        for id in self.index.beyond(self.settings.prefix_size) {
            self.remove_from_prefix(id)?;
        }
        Ok(())
    }

    /// Collective: copies the newest checkpoint if it is only in the cache.
    pub(crate) fn flush_newest(&mut self) -> Result<(), Problem> {
        let newest = self.cached.values().rev().map(|cached| &cached.dataset);
        let newest = newest.clone().find(|dataset| dataset.flags.is_checkpoint());
        match newest.map(|dataset| dataset.id) {
            Some(id) if self.settings.flush > 0 && !self.index.has(id) => self.flush(id),
            _ => Ok(()),
        }
    }

    /// `SCR_Delete`
    ///
    /// # Errors
    /// The order of calls; there is no such dataset, or it cannot be removed.
    pub fn delete(&mut self, name: &str) -> Result<(), Problem> {
        self.phase.allow(Call::Delete)?;
        let in_cache = self.cached.values().find(|cached| cached.dataset.name == name);
        let in_cache = in_cache.map(|cached| cached.dataset.id);
        let in_index = self.index.get(name).map(|entry| entry.dataset.id);
        if in_cache.or(in_index).is_none() {
            return Err(Problem::Wrong(format!("SCR_Delete: there is no dataset {name}")));
        }
        in_cache.map_or(Ok(()), |id| self.remove_from_caches(id))?;
        in_index.map_or(Ok(()), |id| self.remove_from_prefix(id))
    }

    /// `SCR_Drop`
    ///
    /// # Errors
    /// The order of calls; there is no such dataset in the index.
    pub fn drop_entry(&mut self, name: &str) -> Result<(), Problem> {
        self.phase.allow(Call::Drop)?;
        let id = self.index.get(name).map(|entry| entry.dataset.id);
        let none = || Problem::Wrong(format!("SCR_Drop: there is no dataset {name} in the index"));
        self.index.drop(id.ok_or_else(none)?);
        self.write_index()
    }
}

fn refused(name: &str) -> Problem {
    Problem::Wrong(format!("{name}: its files are not valid, the program says"))
}
