// SPDX-License-Identifier: Apache-2.0
//! Restarts: which checkpoint a run begins with, from the caches or from the prefix directory.

use crate::bring::{Brought, bring, sentences};
use crate::comm::Comm;
use crate::image::checksum;
use crate::library::{Cached, Scr};
use crate::problem::Problem;
use crate::survey::Survey;
use fermata_levels::restart::{Impossible, Lost, Restart, choose};
use fermata_scr::{Call, Dataset, Files, Phase};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A checkpoint that can be read.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    dataset: Dataset,
    /// The files of this rank.
    mine: Files,
    /// Where they are; none: in the prefix directory.
    store: Option<usize>,
}

impl<C: Comm> Scr<C> {
    /// Collective: brings the newest checkpoint that there is to where its ranks are.
    pub(crate) fn load(&mut self) -> Result<(), Problem> {
        self.loaded = None;
        let mut survey = self.survey()?;
        self.last = self.last.max(survey.last()).max(self.index.last());
        let ranks = self.team.size();
        let others = survey.found.iter().map(|found| found.kept.dataset.ranks);
        if let Some(other) = others.into_iter().find(|other| *other != ranks) {
            let text = format!("the cache has datasets of {other} ranks, and the job has {ranks}");
            self.tell_once(text);
        }
        // Outputs that did not reach the prefix directory will be made again.
        let outputs = survey.found.iter().map(|found| &found.kept.dataset);
        let outputs = outputs.filter(|dataset| !dataset.flags.is_checkpoint());
        let outputs: BTreeSet<u32> = outputs.map(|dataset| dataset.id).collect();
        for id in &outputs {
            self.remove_from_caches(*id)?;
        }
        survey.found.retain(|found| {
            let Dataset { id, ranks: of, .. } = found.kept.dataset;
            of == ranks && !outputs.contains(&id)
        });
        let found = self.search(&mut survey)?;
        self.settle(&survey, found)
    }

    fn search(&mut self, survey: &mut Survey) -> Result<Option<Loaded>, Problem> {
        loop {
            let snapshots: Vec<_> = survey.found.iter().map(|f| f.kept.snapshot.clone()).collect();
            let chosen = choose(&snapshots, &survey.holdings(), &BTreeSet::new());
            let fetched = self.index.candidates(self.team.size()).first().map(|d| (*d).clone());
            let fetched = fetched.filter(|_| self.settings.fetch);
            match (chosen, fetched) {
                (Ok(choice), fetched)
                    if fetched.as_ref().is_none_or(|d| d.id <= choice.snapshot.id.epoch) =>
                {
                    self.tell_lost(&choice.lost);
                    if let Some(loaded) = self.take(survey, &choice)? {
                        return Ok(Some(loaded));
                    }
                }
                (chosen, Some(dataset)) => {
                    if let Err(Impossible(lost)) = chosen {
                        self.tell_lost(&lost);
                    }
                    if let Some(loaded) = self.fetch(&dataset)? {
                        return Ok(Some(loaded));
                    }
                    self.index.fail(dataset.id);
                    self.write_index()?;
                }
                (Err(Impossible(lost)), None) => {
                    self.tell_lost(&lost);
                    return Ok(None);
                }
                (Ok(_), None) => return Ok(None), // the first arm takes it
            }
        }
    }

    fn tell_lost(&mut self, lost: &[Lost]) {
        for lost in lost {
            self.tell_once(format!("dataset {}", lost.to_string().replacen("checkpoint ", "", 1)));
        }
    }

    /// From the caches. `None`: it is not there after all, and the survey says so now.
    fn take(&mut self, survey: &mut Survey, choice: &Restart) -> Result<Option<Loaded>, Problem> {
        let id = choice.snapshot.id;
        let Some(found) = survey.get(id) else { return Ok(None) };
        let (kept, store) = (found.kept.clone(), found.store);
        let cache = self.caches[store].clone();
        let (mine, moved) = match bring(&self.team, &cache, found, choice)? {
            Brought::Whole { mine, moved } => (mine, moved),
            Brought::Lost => return Ok(None),
            Brought::Failed => {
                survey.found.retain(|found| found.kept.id() != id);
                return Ok(None);
            }
        };
        let said = sentences(&kept, choice, self.team.hosts());
        let is_elsewhere = !said.is_empty();
        said.iter().for_each(|sentence| self.team.say(sentence));
        self.tell_user(1, format!("{}: found in the cache", kept.dataset.name));
        if moved || is_elsewhere {
            match self.protect(&kept.dataset, &cache, &mine) {
                Ok(kept) if self.team.stands_for_host() => {
                    let locals: BTreeSet<u32> = self.team.locals(self.team.host()).collect();
                    cache.keep_only(&kept, |rank| locals.contains(&rank));
                }
                Ok(_) => {}
                Err(problem) => self.complain(&problem),
            }
        }
        Ok(Some(Loaded { dataset: kept.dataset, mine, store: Some(store) }))
    }

    /// From the prefix directory. `None`: it is not whole.
    fn fetch(&mut self, dataset: &Dataset) -> Result<Option<Loaded>, Problem> {
        let Some(summary) = self.summary(dataset)? else { return Ok(None) };
        let rank = self.team.rank();
        let Some(mut mine) = summary.ranks.get(rank as usize).cloned() else { return Ok(None) };
        let descriptor = self.descriptor(dataset)?;
        let stays = descriptor.bypass || self.settings.fetch_bypass || self.settings.global_restart;
        let store = descriptor.store;
        if stays {
            let there = mine.files.iter().try_for_each(|file| self.prefix.check(file));
            let is_there = self.team.all(there).is_ok();
            let loaded = Loaded { dataset: dataset.clone(), mine, store: None };
            return Ok(is_there.then_some(loaded));
        }
        self.remove_from_caches(dataset.id)?;
        let cache = self.caches[store].clone();
        let directory = cache.files(dataset.id, rank);
        let copied = cache.make_rank(dataset.id, rank).and_then(|()| {
            mine.files.iter_mut().try_for_each(|file| {
                let to = directory.join(file.name());
                self.prefix.get(file, &to)?;
                let (bytes, crc) = checksum(&to).map_err(Problem::file("read", &to))?;
                file.crc = Some(crc);
                if bytes == file.bytes { Ok(()) } else { Err(self.short(&to)) }
            })
        });
        let copied = self.team.all(copied);
        let kept = copied.and_then(|()| self.protect(dataset, &cache, &mine));
        if let Err(problem) = kept {
            self.complain(&problem);
            self.team.say(format!("{}: it cannot be fetched", dataset.name));
            self.remove_from_caches(dataset.id)?;
            return Ok(None);
        }
        self.team.say(format!("{}: fetched from {}", dataset.name, self.prefix.root().display()));
        Ok(Some(Loaded { dataset: dataset.clone(), mine, store: Some(store) }))
    }

    fn short(&self, path: &Path) -> Problem {
        Problem::Wrong(format!("{} has another size than it had", path.display()))
    }

    /// What is newer than what has been loaded goes, what is older stays.
    fn settle(&mut self, survey: &Survey, found: Option<Loaded>) -> Result<(), Problem> {
        let last = found.as_ref().map_or(0, |loaded| loaded.dataset.id);
        self.cached.clear();
        for found in &survey.found {
            let (dataset, store) = (found.kept.dataset.clone(), found.store);
            self.cached.insert(dataset.id, Cached { dataset, store, mine: None });
        }
        let newer: Vec<u32> = self.cached.keys().copied().filter(|id| *id > last).collect();
        for id in newer {
            self.remove_from_caches(id)?;
        }
        let Some(loaded) = found else { return Ok(()) };
        self.checkpoint = loaded.dataset.checkpoint;
        if let Some(store) = loaded.store {
            let (dataset, mine) = (loaded.dataset.clone(), Some(loaded.mine.clone()));
            self.cached.insert(last, Cached { dataset, store, mine });
        }
        let is_global = self.settings.global_restart;
        if (is_global || self.settings.flush_on_restart) && !self.index.has(last) {
            self.flush(last)?;
        }
        let store = loaded.store.filter(|_| !is_global);
        self.loaded = Some(Loaded { store, ..loaded });
        Ok(())
    }

    /// `SCR_Have_restart`: the name of the checkpoint that can be read.
    ///
    /// # Errors
    /// The order of calls.
    pub fn have_restart(&self) -> Result<Option<&str>, Problem> {
        self.phase.allow(Call::HaveRestart)?;
        Ok(self.loaded.as_ref().map(|loaded| loaded.dataset.name.as_str()))
    }

    /// `SCR_Start_restart`
    ///
    /// # Errors
    /// The order of calls; there is no checkpoint.
    pub fn start_restart(&mut self) -> Result<String, Problem> {
        self.phase.allow(Call::StartRestart)?;
        let none = || Problem::Wrong("SCR_Start_restart: there is no checkpoint".into());
        let name = self.loaded.as_ref().ok_or_else(none)?.dataset.name.clone();
        self.phase = Phase::Restart;
        Ok(name)
    }

    pub(crate) fn route_restart(&self, name: &str, cwd: &Path) -> Result<PathBuf, Problem> {
        let none = || Problem::Wrong(format!("SCR_Route_file: this rank has no file {name}"));
        let Some(loaded) = &self.loaded else { return Err(none()) };
        let below = self.prefix.below(name, cwd);
        let file = below.as_deref().and_then(|path| loaded.mine.find(path));
        let file = file.or_else(|| loaded.mine.find(name));
        let path = match (loaded.store, file, below) {
            (Some(store), Some(file), _) => {
                let directory = self.caches[store].files(loaded.dataset.id, self.team.rank());
                directory.join(file.name())
            }
            (None, Some(file), _) => self.prefix.path(file),
            // All files of all ranks are there.
            (None, None, Some(path)) => self.prefix.root().join(path),
            _ => return Err(none()),
        };
        fs::File::open(&path).map_err(Problem::file("read", &path))?;
        Ok(path)
    }

    /// `SCR_Complete_restart`. If a rank could not read its files, the next older checkpoint is
    /// loaded.
    ///
    /// # Errors
    /// The order of calls; a rank could not read its files.
    pub fn complete_restart(&mut self, is_valid: bool) -> Result<(), Problem> {
        self.phase.allow(Call::CompleteRestart)?;
        self.phase = Phase::Idle;
        let Some(loaded) = self.loaded.take() else { return Ok(()) };
        let Dataset { id, name, .. } = loaded.dataset;
        if self.team.agree(is_valid)? {
            if self.index.set_current(&name) {
                self.write_index()?;
            }
            return Ok(());
        }
        self.remove_from_caches(id)?;
        if self.index.has(id) {
            self.index.fail(id);
            self.write_index()?;
        }
        self.load()?;
        Err(Problem::Wrong(format!("{name}: a rank could not read its files")))
    }

    /// `SCR_Current`
    ///
    /// # Errors
    /// The order of calls; there is no such checkpoint.
    pub fn current(&mut self, name: &str) -> Result<(), Problem> {
        self.phase.allow(Call::Current)?;
        if self.make_current(name)? {
            return Ok(());
        }
        Err(Problem::Wrong(format!("SCR_Current: there is no checkpoint {name}")))
    }

    /// Collective: whether there is such a checkpoint, which is then loaded.
    pub(crate) fn make_current(&mut self, name: &str) -> Result<bool, Problem> {
        let survey = self.survey()?;
        let datasets = || survey.found.iter().map(|found| &found.kept.dataset);
        let in_cache = datasets().find(|dataset| dataset.name == name).map(|dataset| dataset.id);
        let in_index = self.index.set_current(name);
        let id = self.index.get(name).filter(|_| in_index).map(|entry| entry.dataset.id);
        let Some(id) = id.or(in_cache) else { return Ok(false) };
        if in_index {
            self.write_index()?;
        }
        self.last = self.last.max(survey.last());
        let newer: BTreeSet<u32> =
            datasets().map(|dataset| dataset.id).filter(|newer| *newer > id).collect();
        for newer in newer {
            self.remove_from_caches(newer)?;
        }
        self.load()?;
        Ok(true)
    }
}
