// SPDX-License-Identifier: Apache-2.0
//! Several programs as one job, as mpirun is told of them: `A args : -n 2 B args`. A word `:` alone
//! ends the arguments of a program.

use crate::exit::usage;
use anyhow::Result;
use fermata_types::{ProgramRecord, words};
use std::ffi::OsString;

/// The programs of a command line, of which the first has this many ranks.
///
/// # Errors
/// It makes no sense.
pub fn split(command: &[OsString], ranks: u32) -> Result<Vec<ProgramRecord>> {
    let mut parts = command.split(|word| word == ":");
    let first = parts.next().unwrap_or_default().to_vec();
    let mut programs = vec![ProgramRecord { ranks, argv: first }];
    for part in parts {
        programs.push(parse(part)?);
    }
    if programs.iter().any(|program| program.argv.is_empty()) {
        return Err(usage(
            "there is no program on one side of ':'\n  \
             hint: fermata run -n 1 -- ./a args : -n 2 ./b args",
        ));
    }
    Ok(programs)
}

/// How many ranks they have together.
pub fn ranks(programs: &[ProgramRecord]) -> u32 {
    programs.iter().map(|program| program.ranks).sum()
}

/// `[-n N] [--] PROGRAM ARGS`
fn parse(part: &[OsString]) -> Result<ProgramRecord> {
    let mut program = ProgramRecord { ranks: 1, argv: Vec::new() };
    let mut left = part.iter();
    while let Some(word) = left.next() {
        match word.to_str() {
            Some("-n" | "-np") => {
                let count = left.next().and_then(|text| text.to_str()?.parse().ok());
                program.ranks = count
                    .filter(|count| *count > 0)
                    .ok_or_else(|| usage("'-n' behind ':' wants a number of ranks, 1 or more"))?;
                continue;
            }
            Some("--") => {}
            Some(option) if option.starts_with('-') => {
                return Err(usage(format!(
                    "'{option}' behind ':' is no option of a program\n  \
                     hint: only -n N; all other options are the job's and go before --"
                )));
            }
            _ => program.argv.push(word.clone()),
        }
        program.argv.extend(left.by_ref().cloned());
    }
    Ok(program)
}

/// For people, line by line: the command line, or which ranks have which.
pub fn shown(programs: &[ProgramRecord], argv: &[OsString]) -> String {
    if programs.is_empty() {
        return format!("  {}\n", words::line(argv));
    }
    let mut first = 0;
    let mut text = String::new();
    for program in programs {
        let last = first + program.ranks - 1;
        let whose = if first == last {
            format!("rank {first}")
        } else {
            format!("ranks {first} to {last}")
        };
        text += &format!("  {whose}: {}\n", words::line(&program.argv));
        first = last + 1;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split_text(line: &str) -> Result<Vec<(u32, String)>> {
        let command: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let pair = |program: &ProgramRecord| (program.ranks, words::line(&program.argv));
        Ok(split(&command, 3)?.iter().map(pair).collect())
    }

    fn programs(list: &[(u32, &str)]) -> Vec<(u32, String)> {
        list.iter().map(|(ranks, line)| (*ranks, (*line).to_owned())).collect()
    }

    #[test]
    fn each_program_has_its_own_ranks_and_arguments() {
        let found = split_text("./a -n 9 x : -n 2 ./b : c -- y : -np 4 -- d -z").unwrap();
        let wanted = [(3, "./a -n 9 x"), (2, "./b"), (1, "c -- y"), (4, "d -z")];
        assert_eq!(found, programs(&wanted));
        assert_eq!(split_text("./a b:c").unwrap(), programs(&[(3, "./a b:c")]));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in ["a :", ": a", "a : -n 2", "a : -n x b", "a : -n 0 b", "a : --host h b"] {
            let error = split_text(line).unwrap_err();
            assert_eq!(crate::exit::code_of(&error), crate::exit::USAGE, "{line}");
        }
    }
}
