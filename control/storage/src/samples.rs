// SPDX-License-Identifier: Apache-2.0
//! Small but complete images for tests: what a rank would write, with two extents of real bytes.

use fermata_types::{
    ELF_MACHINE, IMAGE_HEADER_BYTES, IMAGE_MAGIC, IMAGE_VERSION, ImageExtent, ImageHeader,
    ImageRegion, TableRef,
};

const PAGE: usize = 4096;

/// A valid image and the CRC of its header block.
#[must_use]
pub fn image(job: &str, epoch: u32, rank: u32, size: u32) -> (Vec<u8>, u32) {
    let pages: Vec<u8> =
        (0..2 * PAGE).map(|i| u8::try_from((i * 7 + rank as usize) % 251).unwrap_or(0)).collect();
    let base = 0x1180_0000_0000;
    let extents: Vec<ImageExtent> = (0..2)
        .map(|i: usize| ImageExtent {
            address: base + (i * PAGE) as u64,
            bytes: PAGE as u64,
            offset: (IMAGE_HEADER_BYTES + i * PAGE) as u64,
            crc: crc32c::crc32c(&pages[i * PAGE..(i + 1) * PAGE]),
            flags: 0,
        })
        .collect();
    let region = ImageRegion {
        start: base,
        end: base + 4 * PAGE as u64,
        prot: 3,
        flags: 0,
        file_offset: 0,
        path_string: 0,
        build_id_string: 0,
        first_extent: 0,
        extent_count: 2,
        object: 0,
        policy_string: 0,
        file: 0,
        reserved: 0,
    };
    let mut file = vec![0; IMAGE_HEADER_BYTES];
    file.extend_from_slice(&pages);
    let regions = table(&mut file, 1, |out| region.write(out));
    let extent_table = table(&mut file, 2, |out| extents.iter().for_each(|e| e.write(out)));
    let strings = table(&mut file, 1, |out| out.push(0));
    let empty = table(&mut file, 0, |_| {});
    let header = ImageHeader {
        magic: IMAGE_MAGIC,
        version: IMAGE_VERSION,
        header_bytes: 4096,
        machine: ELF_MACHINE.into(),
        crossing_version: 1,
        calls_hash: 0,
        epoch,
        world_rank: rank,
        world_size: size,
        restarts: 0,
        main_thread: 0,
        job: padded(job),
        front: padded("ompi"),
        lower: padded("none"),
        file_bytes: file.len() as u64,
        payload_offset: IMAGE_HEADER_BYTES as u64,
        payload_bytes: pages.len() as u64,
        brk_start: 0,
        brk_end: 0,
        mmap_cursor: 0,
        umask: 0,
        executable_string: 0,
        cwd_string: 0,
        saved_pid: 0,
        saved_unix_s: 0,
        cpu_features: [0; 4],
        limits: [0; 32],
        limits_changed: 0,
        xsave_layout: 0,
        command: [0; 16],
        processors: [0; 128],
        regions,
        objects: empty.clone(),
        extents: extent_table,
        threads: empty.clone(),
        files: empty.clone(),
        members: empty.clone(),
        actions: empty.clone(),
        signals: empty.clone(),
        timers: empty.clone(),
        strings,
        header_crc: 0,
        thread_level: 0,
        future_locks: 0,
        traits: 0,
        parent: 0,
        group: 0,
        session: 0,
        membarriers: 0,
        oom_score_adj: 0,
        coredump_filter: 0,
        clocks: [0; 4],
        ticks: 0,
        arguments: [0; 6],
        save_files_string: 0,
        sealing: 0,
        key_id: [0; 8],
        salt: [0; 32],
        mac: [0; 32],
        tags: TableRef { offset: 0, ..empty },
    };
    let crc = crc32c::crc32c(&header_block(&header));
    let block = header_block(&ImageHeader { header_crc: crc, ..header });
    file[..IMAGE_HEADER_BYTES].copy_from_slice(&block);
    (file, crc)
}

fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut out = [0; N];
    for (place, byte) in out.iter_mut().zip(text.bytes()) {
        *place = byte;
    }
    out
}

fn header_block(header: &ImageHeader) -> Vec<u8> {
    let mut block = Vec::new();
    header.write(&mut block);
    block.resize(IMAGE_HEADER_BYTES, 0);
    block
}

fn table(file: &mut Vec<u8>, count: u64, write: impl FnOnce(&mut Vec<u8>)) -> TableRef {
    let offset = file.len();
    write(file);
    TableRef {
        offset: offset as u64,
        count,
        bytes: (file.len() - offset) as u64,
        crc: crc32c::crc32c(&file[offset..]),
        reserved: 0,
    }
}
