// SPDX-License-Identifier: Apache-2.0
//! What it takes to start a job or a rank of it: which MPIs there are and what each wants, what
//! process managers and batch systems tell, what a program consists of, and what of its files a
//! snapshot continues with. The command line asks here and has words and screens.
//!
//! Floors, each of which knows only those before it: `problem`, `report`, `units`, `names`, `ask`;
//! `batch` (what a batch system tells); `mpi`, `outcome`, `hosts`, `environment`, `flavour`,
//! `choice`, `limits` and `registry` (MPIs); `manager`, `stdin`, `behind` and `start` (what starts
//! ranks);
//! `app` (the program); `key`, `moved`, `kept`, `parts`, `files`, `programs`, `versions` (what a
//! snapshot continues with); `back_end` (registering an MPI); `guarded` (mpirun and signals);
//! `mpirun` and `rank` (command lines, as plain data).
//!
//! Invariant: nothing is printed but by `report`, and that only of what has been changed or cannot
//!            be as it should.

pub mod allocation;
pub mod app;
pub mod ask;
pub mod back_end;
pub mod batch;
pub mod behind;
mod choice;
pub mod environment;
pub mod files;
mod flavour;
mod grace;
pub mod guarded;
pub mod hosts;
pub mod kept;
pub mod key;
pub mod limits;
pub mod manager;
pub mod moved;
pub mod mpi;
pub mod mpirun;
pub mod names;
pub mod outcome;
pub mod parts;
pub mod problem;
pub mod programs;
pub mod rank;
pub mod registry;
mod report;
pub mod start;
mod stdin;
pub mod surviving;
pub mod units;
pub mod versions;
