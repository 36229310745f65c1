// SPDX-License-Identifier: Apache-2.0
//! `-np`, as users of mpirun type it, in the form that the table of flags knows.

use clap::{Arg, Command};
use std::ffi::OsString;
use std::mem::take;

/// The words of a command line with `--np` for `-np`, where that is an option of `run`: what
/// belongs to the program, and values of other options, stay as they are.
pub fn spelled_out(words: Vec<OsString>, table: &Command) -> Vec<OsString> {
    let run = table.find_subcommand("run");
    let takes_value = |word: &str| {
        let name = word.trim_start_matches('-');
        let is_named = |arg: &&Arg| {
            let short = arg.get_short().map(String::from);
            arg.get_long() == Some(name) || short.as_deref() == Some(name)
        };
        let mut all = table.get_arguments().chain(run.into_iter().flat_map(Command::get_arguments));
        all.find(is_named).is_some_and(|arg| arg.get_action().takes_values())
    };
    let (mut is_run, mut is_value, mut is_over) = (false, true, false); // first the command's name
    let spelled = |word: OsString| {
        if is_over || take(&mut is_value) {
            return word;
        }
        match word.to_str() {
            Some("-np") if is_run => {
                is_value = true;
                return "--np".into();
            }
            Some("run") if !is_run => is_run = true,
            Some(option) if option.starts_with('-') && option != "--" => {
                is_value = takes_value(option);
            }
            _ => is_over = true,
        }
        word
    };
    words.into_iter().map(spelled).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command as Chosen};
    use clap::{CommandFactory, Parser};

    fn ranks_and_command(line: &str) -> Result<(Option<u32>, String), String> {
        let words = line.split(' ').map(OsString::from).collect();
        let parsed = Cli::try_parse_from(spelled_out(words, &Cli::command()))
            .map_err(|error| error.to_string())?;
        let Chosen::Run { ranks, command, .. } = parsed.command else {
            return Err("no run".into());
        };
        Ok((ranks, fermata_types::words::line(&command)))
    }

    #[test]
    fn a_program_is_run_as_with_mpirun() {
        for (line, ranks, command) in [
            ("fermata run -np 4 ./app -np 9 --json", Some(4), "./app -np 9 --json"),
            ("fermata run -n 4 ./app", Some(4), "./app"),
            ("fermata run --np 4 -- ./app -- x", Some(4), "./app -- x"),
            ("fermata run ./app -- -np 3", None, "./app -- -np 3"),
            ("fermata --dir run run --name np -np 2 -- -np", Some(2), "-np"),
            ("fermata run -np 1 ./a : -np 2 ./b", Some(1), "./a : -np 2 ./b"),
            ("fermata --dir=x run --every 10m -np 2 ./a", Some(2), "./a"),
        ] {
            assert_eq!(ranks_and_command(line), Ok((ranks, command.into())), "{line}");
        }
    }

    #[test]
    fn an_option_that_is_none_is_not_taken_for_the_program() {
        for line in ["fermata run --nmae x ./app", "fermata run -n 0 ./app", "fermata run -np"] {
            assert!(ranks_and_command(line).is_err(), "{line}");
        }
        assert!(ranks_and_command("fermata run --resume ./app").is_err(), "of which job?");
        assert!(ranks_and_command("fermata run --name a --again ./app").is_err());
    }
}
