// SPDX-License-Identifier: Apache-2.0
//! Snapshots of one key under the eyes of others, and changed so that every checksum fits.

use crate::own::Whose;
use crate::snapshot::{commit, trust};
use crate::verify::tests::Scratch;
use crate::{Image, ImageProblem, SealProblem, read_header, verify};
use fermata_seal::{Key, Seal};
use fermata_types::{
    IMAGE_HEADER_BYTES, IMAGE_HEADER_CRC_OFFSET, IMAGE_OLDEST, IMAGE_VERSION, ImageExtent,
    ImageHeader, sealing,
};
use std::fs;
use std::path::{Path, PathBuf};

const KEY: Key = Key::new([1; 32]);
const OTHER: Key = Key::new([2; 32]);
/// Of `version` and of `tags` in the header.
const VERSION_OFFSET: usize = 8;
const TAGS_OFFSET: usize = 1248;

fn snapshot(scratch: &Scratch) -> PathBuf {
    // The ranks' hosts have no key, so the commit seals what they have written.
    commit(&scratch.job(), &scratch.fill(1), Some(&KEY)).unwrap()
}

fn problems(snapshot: &Path, whose: Whose) -> Vec<String> {
    verify(snapshot, whose, |_| {}).problems
}

/// Changes the bytes of an image, and every checksum in it as anybody can.
fn forge(path: &Path, change: impl Fn(&mut [u8])) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    let mut header = ImageHeader::parse(&bytes).unwrap();
    let at = usize::try_from(header.extents.offset).unwrap();
    let end = at + usize::try_from(header.extents.bytes).unwrap();
    let table: Vec<_> =
        bytes[at..end].chunks(ImageExtent::BYTES).filter_map(ImageExtent::parse).collect();
    let mut fitting = Vec::new();
    for extent in table {
        let from = usize::try_from(extent.offset).unwrap();
        let pages = &bytes[from..from + usize::try_from(extent.bytes).unwrap()];
        ImageExtent { crc: crc32c::crc32c(pages), ..extent }.write(&mut fitting);
    }
    header.extents.crc = crc32c::crc32c(&fitting);
    bytes[at..end].copy_from_slice(&fitting);
    let mut block = Vec::new();
    header.write(&mut block);
    bytes[..block.len()].copy_from_slice(&block);
    let crc_at = IMAGE_HEADER_CRC_OFFSET..IMAGE_HEADER_CRC_OFFSET + 4;
    bytes[crc_at.clone()].fill(0);
    let crc = crc32c::crc32c(&bytes[..IMAGE_HEADER_BYTES]);
    bytes[crc_at].copy_from_slice(&crc.to_le_bytes());
    fs::write(path, bytes).unwrap();
}

#[test]
fn what_a_commit_seals_is_believed_with_its_key_alone() {
    let scratch = Scratch::new();
    let snapshot = snapshot(&scratch);
    let ours = verify(&snapshot, Whose::Own(Some(KEY)), |_| {});
    assert_eq!((ours.problems, ours.seal), (Vec::new(), Seal::Ours));
    let texts = [Whose::Own(None), Whose::Own(Some(OTHER))].map(|whose| problems(&snapshot, whose));
    assert!(texts[0][0].ends_with(&SealProblem::NoKey.to_string()), "{texts:?}");
    assert!(texts[1][0].ends_with(&SealProblem::Others.to_string()), "{texts:?}");
    for key in [None, Some(OTHER)] {
        let looked = verify(&snapshot, Whose::Anybodys(key), |_| {});
        assert_eq!((looked.problems, looked.seal), (Vec::new(), Seal::Others));
    }
}

#[test]
fn what_is_not_sealed_is_believed_where_there_is_no_key() {
    let scratch = Scratch::new();
    let snapshot = scratch.snapshot(1);
    assert_eq!(problems(&snapshot, Whose::Own(None)), Vec::<String>::new());
    let text = problems(&snapshot, Whose::Own(Some(KEY)));
    assert!(text[0].ends_with(&SealProblem::Absent.to_string()), "{text:?}");
}

#[test]
fn forged_pages_and_tables_are_noticed() {
    let scratch = Scratch::new();
    let path = snapshot(&scratch).join("rank-1.img");
    let sealed = fs::read(&path).unwrap();
    let open = |key| Image::open(&path, Whose::Own(Some(key)));
    forge(&path, |_| {});
    assert_eq!(fs::read(&path).unwrap(), sealed, "what is forged without a change is the same");
    forge(&path, |bytes| bytes[IMAGE_HEADER_BYTES] ^= 1);
    assert_eq!(open(KEY).err(), Some(ImageProblem::Sealed(SealProblem::Broken)));
    // The pages alone: the checksum is that of the table.
    fs::write(&path, &sealed).unwrap();
    let mut image = open(KEY).unwrap();
    image.tags.swap(0, 1);
    let address = image.extents[0].address;
    assert_eq!(image.check_pages(|_| {}), Err(ImageProblem::PagesForged(address)));
    assert_eq!(open(OTHER).err(), Some(ImageProblem::Sealed(SealProblem::Others)));
}

#[test]
fn trust_takes_over_what_is_whole() {
    let scratch = Scratch::new();
    let snapshot = snapshot(&scratch);
    trust(&snapshot, &OTHER).unwrap();
    assert_eq!(problems(&snapshot, Whose::Own(Some(OTHER))), Vec::<String>::new());
    assert!(!problems(&snapshot, Whose::Own(Some(KEY))).is_empty());
    let path = snapshot.join("rank-2.img");
    let mut bytes = fs::read(&path).unwrap();
    bytes[IMAGE_HEADER_BYTES + 5] ^= 1;
    fs::write(&path, bytes).unwrap();
    let why = trust(&snapshot, &KEY).unwrap_err().to_string();
    assert!(why.contains("rank-2.img") && why.contains("damaged"), "{why}");
    // What came before it is taken over already; the rest is once it is whole again.
    assert!(!problems(&snapshot, Whose::Own(Some(KEY))).is_empty());
}

#[test]
fn what_is_encrypted_is_read_with_its_key_alone() {
    let scratch = Scratch::new();
    let path = snapshot(&scratch).join("rank-0.img");
    let plain = fs::read(&path).unwrap();
    encrypt(&path);
    let pages = |whose| {
        let mut buffer = Vec::new();
        Image::open(&path, whose)?.read_pages(1, &mut buffer).map(|()| buffer)
    };
    let second = IMAGE_HEADER_BYTES + 4096..IMAGE_HEADER_BYTES + 8192;
    assert_eq!(pages(Whose::Own(Some(KEY))).unwrap(), plain[second.clone()]);
    assert_ne!(fs::read(&path).unwrap()[second.clone()], plain[second]);
    assert_eq!(pages(Whose::Anybodys(None)).err(), Some(ImageProblem::Encrypted));
    let mut image = Image::open(&path, Whose::Anybodys(Some(OTHER))).unwrap();
    assert_eq!(image.check_pages(|_| {}), Ok(()), "damage is looked for without the key");
    assert_eq!(Image::seal(&path, &OTHER).err(), Some(ImageProblem::Encrypted));
    assert_eq!(Image::seal(&path, &KEY).map(|header| header.sealing), Ok(sealing::ENCRYPTED));
}

/// As the launcher writes it.
fn encrypt(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let mut header = ImageHeader::parse(&bytes).unwrap();
    let keys = KEY.image(&header.salt);
    header.sealing = sealing::ENCRYPTED;
    header.mac.fill(0);
    let at = usize::try_from(header.extents.offset).unwrap();
    let tags_at = usize::try_from(header.tags.offset).unwrap();
    for (number, place) in (0_u64..2).zip([IMAGE_HEADER_BYTES, IMAGE_HEADER_BYTES + 4096]) {
        let entry = at + usize::try_from(number).unwrap() * ImageExtent::BYTES;
        let tag = keys.encrypt(number, &mut bytes[place..place + 4096]);
        let crc = crc32c::crc32c(&bytes[place..place + 4096]);
        let tag_at = tags_at + usize::try_from(number).unwrap() * tag.len();
        bytes[tag_at..tag_at + tag.len()].copy_from_slice(&tag);
        let extent = ImageExtent { crc, ..ImageExtent::parse(&bytes[entry..]).unwrap() };
        let mut fitting = Vec::new();
        extent.write(&mut fitting);
        bytes[entry..entry + ImageExtent::BYTES].copy_from_slice(&fitting);
    }
    header.extents.crc = crc32c::crc32c(&bytes[at..at + 2 * ImageExtent::BYTES]);
    let tags = &bytes[tags_at..tags_at + usize::try_from(header.tags.bytes).unwrap()];
    header.tags.crc = crc32c::crc32c(tags);
    let block = |header: &ImageHeader| {
        let mut block = Vec::new();
        header.write(&mut block);
        block.resize(IMAGE_HEADER_BYTES, 0);
        block
    };
    header.header_crc = 0;
    let table = |t: &fermata_types::TableRef| {
        let from = usize::try_from(t.offset).unwrap();
        bytes[from..from + usize::try_from(t.bytes).unwrap()].to_vec()
    };
    let parts = [block(&header), table(&header.regions), table(&header.extents)];
    let parts = [&parts[0], &parts[1], &parts[2], &table(&header.strings), &table(&header.tags)]
        .map(|part| part.to_vec());
    header.mac = keys.mac(parts.iter().map(Vec::as_slice));
    header.header_crc = crc32c::crc32c(&block(&header));
    bytes[..IMAGE_HEADER_BYTES].copy_from_slice(&block(&header));
    fs::write(path, bytes).unwrap();
}

#[test]
fn an_image_of_the_oldest_format_is_read_and_trusted() {
    let scratch = Scratch::new();
    let snapshot = scratch.snapshot(1);
    let path = snapshot.join("rank-0.img");
    forge(&path, |bytes| bytes[VERSION_OFFSET] = u8::try_from(IMAGE_OLDEST).unwrap());
    let image = Image::open(&path, Whose::Own(None)).unwrap();
    assert_eq!((image.header.version, image.seal), (IMAGE_OLDEST, Seal::Absent));
    trust(&snapshot, &KEY).unwrap();
    assert_eq!(problems(&snapshot, Whose::Own(Some(KEY))), Vec::<String>::new());
    assert_eq!(read_header(&path, Whose::Own(None)).unwrap().version, IMAGE_VERSION);
}

#[test]
fn an_image_of_an_unknown_format_is_refused_by_its_number() {
    let scratch = Scratch::new();
    let path = snapshot(&scratch).join("rank-0.img");
    for version in [IMAGE_OLDEST - 1, IMAGE_VERSION + 1] {
        forge(&path, |bytes| bytes[VERSION_OFFSET] = u8::try_from(version).unwrap());
        let why = Image::open(&path, Whose::Own(Some(KEY))).err();
        assert_eq!(why, Some(ImageProblem::Version(version)));
    }
}

#[test]
fn a_sealed_image_has_a_tag_for_each_extent() {
    let scratch = Scratch::new();
    let path = snapshot(&scratch).join("rank-0.img");
    let header = read_header(&path, Whose::Anybodys(None)).unwrap();
    let count_at = TAGS_OFFSET + 8;
    for tags in [0_u64, 1] {
        let end = usize::try_from(header.tags.offset + 16 * tags).unwrap();
        forge(&path, |bytes| {
            let crc = crc32c::crc32c(&bytes[usize::try_from(header.tags.offset).unwrap()..end]);
            bytes[count_at..][..8].copy_from_slice(&tags.to_le_bytes());
            bytes[count_at + 8..][..8].copy_from_slice(&(16 * tags).to_le_bytes());
            bytes[count_at + 16..][..4].copy_from_slice(&crc.to_le_bytes());
        });
        let why = Image::open(&path, Whose::Anybodys(None)).err();
        assert_eq!(why, Some(ImageProblem::TableDamaged("tags")), "{tags} tags");
    }
}
