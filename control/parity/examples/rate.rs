// SPDX-License-Identifier: Apache-2.0
//! How fast parities are made, beside a plain write of the same images:
//! `cargo run --release -p fermata-parity --example rate -- DIRECTORY [MIB [MEMBERS]]`.
//!
//! Each member's image is written and flushed, then the parities of all members, which read the
//! images as far as they are in memory: what a host writes has just been written. Rates are bytes
//! of images per second, of one after the other; hosts do it at the same time.
#![allow(clippy::print_stdout)] // Figures, for whoever runs it.

use fermata_parity::{Layout, Members, Part, Sums, encode, rebuild};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

struct Files {
    images: Vec<File>,
    parities: Vec<File>,
    rebuilt: Option<File>,
}

impl Members for Files {
    type Error = io::Error;

    fn read(&mut self, m: usize, part: Part, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let files = if part == Part::Image { &self.images } else { &self.parities };
        files[m].read_exact_at(bytes, offset)
    }

    fn write(&mut self, m: usize, part: Part, offset: u64, bytes: &[u8]) -> io::Result<()> {
        match (&self.rebuilt, part) {
            (Some(file), Part::Image) => file.write_all_at(bytes, offset),
            _ => self.parities[m].write_all_at(bytes, offset),
        }
    }
}

fn make(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create(true).truncate(true).open(path)
}

fn write_image(file: &mut File, bytes: u64, seed: u64) -> io::Result<()> {
    let mut piece = vec![0_u8; 1 << 20];
    let mut state = seed;
    for byte in &mut piece {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        *byte = (state >> 56) as u8;
    }
    for number in 0..bytes >> 20 {
        piece[..8].copy_from_slice(&number.to_le_bytes());
        file.write_all(&piece)?;
    }
    file.sync_all()
}

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default| words.get(at).and_then(|w| w.parse().ok()).unwrap_or(default);
    let directory = Path::new(words.first().map_or(".", String::as_str));
    let (bytes, members) = (number(1, 128_u64) << 20, number(2, 8_u64));
    let all = (bytes * members) as f64 / 1e6;
    let mut images = Vec::new();
    let begun = Instant::now();
    for member in 0..members {
        let mut file = make(&directory.join(format!("image-{member}")))?;
        write_image(&mut file, bytes, member)?;
        images.push(file);
    }
    println!("plain write      {:8.0} MB/s", all / begun.elapsed().as_secs_f64());
    for parities in [1, 2, 3] {
        rate(directory, &images, bytes, parities, all)?;
    }
    for member in 0..members {
        std::fs::remove_file(directory.join(format!("image-{member}")))?;
        std::fs::remove_file(directory.join(format!("parity-{member}")))?;
    }
    std::fs::remove_file(directory.join("rebuilt"))
}

fn rate(dir: &Path, images: &[File], bytes: u64, parities: usize, all: f64) -> io::Result<()> {
    let members = images.len();
    let layout = Layout::new(vec![bytes; members], parities).map_err(io::Error::other)?;
    let files = (0..members).map(|member| make(&dir.join(format!("parity-{member}"))));
    let images = images.iter().map(File::try_clone).collect::<io::Result<_>>()?;
    let mut work = Files { images, parities: files.collect::<io::Result<_>>()?, rebuilt: None };
    let begun = Instant::now();
    let mut sums = Vec::new();
    for stripe in 0..layout.stripes() {
        sums.extend(encode(&layout, stripe, &mut work).map_err(io::Error::other)?);
    }
    work.parities.iter().try_for_each(File::sync_all)?;
    let made = all / begun.elapsed().as_secs_f64();
    work.rebuilt = Some(make(&dir.join("rebuilt"))?);
    let begun = Instant::now();
    let sums = Sums::of(&layout, &sums);
    rebuild(&layout, &sums, &BTreeSet::from([1]), &mut work).map_err(io::Error::other)?;
    let took = begun.elapsed().as_secs_f64();
    let rebuilt = bytes as f64 / 1e6 / took;
    println!(
        "{parities} of {members}: made {made:8.0} MB/s   one image rebuilt {rebuilt:8.0} MB/s"
    );
    Ok(())
}
