// SPDX-License-Identifier: Apache-2.0

use super::*;

fn manifest() -> Manifest {
    Manifest {
        format: MANIFEST_FORMAT,
        job: "melt".into(),
        epoch: 3,
        size: 1,
        created_unix_s: 1,
        lower: "openmpi".into(),
        front: "ompi".into(),
        argv: vec!["./app".into()],
        programs: vec![],
        cwd: "/".into(),
        images: vec![ImageRecord {
            rank: 0,
            file: "rank-0.img".into(),
            bytes: 8192,
            header_crc: 5,
            mac: String::new(),
            pause_ns: 1,
            host: "a".into(),
        }],
        checkpointer: Checkpointer::Itself,
        files: vec![FileRecord { path: "program/state".into(), bytes: 7 }],
        fermata: "0.1.0".into(),
    }
}

const KEY: Key = Key::new([1; 32]);

#[test]
fn a_manifest_comes_back() {
    let text = manifest().seal(None).unwrap();
    assert_eq!(Manifest::unseal(&text, None).unwrap(), (manifest(), Seal::Absent));
    assert!(text.contains("\"checkpointer\": \"self\""), "{text}");
    assert_eq!(manifest().bytes(), 8192 + 7);
}

#[test]
fn a_manifest_of_one_program_does_not_speak_of_several() {
    assert!(!manifest().seal(None).unwrap().contains("programs"), "or older ones lose their seal");
}

#[test]
fn a_manifest_of_before_is_read() {
    let text = r#"{"crc32c": 2441001658, "manifest":
        {"format":2,"job":"melt","epoch":3,"size":1,"created_unix_s":1,"lower":"openmpi",
         "front":"ompi","argv":["./app"],"cwd":"/","checkpointer":"native","images":[],
         "files":[]}}"#; // format 2: nothing of seals
    let (read, seal) = Manifest::unseal(text, Some(&KEY)).unwrap();
    assert_eq!((read.job.as_str(), read.fermata.as_str(), seal), ("melt", "", Seal::Absent));
}

#[test]
fn a_changed_value_is_noticed() {
    let text = manifest().seal(None).unwrap().replace("8192", "8193");
    assert_eq!(Manifest::unseal(&text, None), Err(ManifestError::Checksum));
}

#[test]
fn a_seal_is_of_one_key_and_one_text() {
    let text = manifest().seal(Some(&KEY)).unwrap();
    let says = |text: &str, key: Option<&Key>| Manifest::unseal(text, key).unwrap().1;
    assert_eq!(says(&text, Some(&KEY)), Seal::Ours);
    assert_eq!(says(&text, None), Seal::Others);
    assert_eq!(says(&text, Some(&Key::new([2; 32]))), Seal::Others);
    assert_eq!(says(&manifest().seal(None).unwrap(), Some(&KEY)), Seal::Absent);
    // Anybody can make the checksum fit.
    let other = Manifest { epoch: 4, ..manifest() };
    let mut sealed: Sealed = serde_json::from_str(&other.seal(None).unwrap()).unwrap();
    let ours: Sealed = serde_json::from_str(&text).unwrap();
    (sealed.key, sealed.mac) = (ours.key, ours.mac);
    let forged = serde_json::to_string(&sealed).unwrap();
    assert_eq!(says(&forged, Some(&KEY)), Seal::Broken);
}

fn record() -> JobRecord {
    JobRecord {
        job: "melt".into(),
        argv: vec!["./app".into()],
        hosts: vec!["a:2".into()],
        mpirun_args: vec!["--quiet".into()],
        keep: 3,
        ..JobRecord::default()
    }
}

#[test]
fn a_job_record_is_sealed_field_by_field() {
    let text = record().seal(Some(&KEY)).unwrap();
    let says = |text: &str, key: Option<&Key>| JobRecord::unseal(text, key).unwrap();
    assert_eq!(says(&text, Some(&KEY)), (record(), Seal::Ours));
    assert_eq!(says(&text, None).1, Seal::Others);
    assert_eq!(says(&text, Some(&Key::new([2; 32]))).1, Seal::Others);
    for (old, new) in [("--quiet", "/tmp/evil"), ("a:2", "b:2"), ("\"keep\": 3", "\"keep\": 4")] {
        assert_eq!(says(&text.replace(old, new), Some(&KEY)).1, Seal::Broken, "{old}");
    }
    let more = text.replacen('{', "{\"later\": 1, ", 1);
    assert_eq!(says(&more, Some(&KEY)).1, Seal::Broken);
    let fewer = serde_json::from_str::<Value>(&text).unwrap();
    let compact = serde_json::to_string(&fewer).unwrap();
    assert_eq!(says(&compact, Some(&KEY)).1, Seal::Ours, "layout does not count");
}

#[test]
fn a_job_record_without_a_mac_is_read_and_has_no_seal() {
    let text = serde_json::to_string(&record()).unwrap(); // as older versions wrote it
    assert_eq!(JobRecord::unseal(&text, Some(&KEY)).unwrap(), (record(), Seal::Absent));
    assert_eq!(JobRecord::unseal(&record().seal(None).unwrap(), None).unwrap().1, Seal::Absent);
    let left = record().without_commands();
    assert!(record().has_commands() && !left.has_commands());
    assert_eq!((left.keep, left.job.as_str()), (3, "melt"));
}

#[test]
fn a_field_that_came_later_does_not_break_a_seal() {
    let mut fields: Map<String, Value> =
        serde_json::from_str(&record().seal(None).unwrap()).unwrap();
    fields.insert("later".into(), 1.into());
    let mac = KEY.job_mac(&serde_json::to_vec(&fields).unwrap());
    fields.insert(KEY_FIELD.into(), hex(&KEY.id()).into());
    fields.insert(MAC_FIELD.into(), hex(&mac).into());
    let text = serde_json::to_string(&fields).unwrap();
    assert_eq!(JobRecord::unseal(&text, Some(&KEY)).unwrap(), (record(), Seal::Ours));
}

#[test]
fn a_record_of_before_says_no_more_than_it_did() {
    let text = r#"{"job": "melt", "ended_well": true}"#;
    let (read, _) = JobRecord::unseal(text, None).unwrap();
    assert!(read.has_finished() && read.ended.is_unknown() && read.run_number == 0);
    let again = read.seal(None).unwrap();
    for name in ["\"ended\"", "ended_unix_s", "run_number"] {
        assert!(!again.contains(name), "{again}");
    }
}

#[test]
fn how_a_run_ended_is_said_in_the_words_of_before_as_well() {
    let mut record = record();
    record.end(Ended::Lost { host: "b".into() }, 7);
    assert_eq!((record.lost_host.as_str(), record.ended_well), ("b", false));
    let text = record.seal(Some(&KEY)).unwrap();
    assert_eq!(JobRecord::unseal(&text, Some(&KEY)).unwrap(), (record.clone(), Seal::Ours));
    record.end(Ended::Finished, 8);
    assert!(record.ended_well && record.ended_unix_s == 8);
}

#[test]
fn a_manifest_of_an_unknown_format_is_refused_by_its_number() {
    let old = Manifest { format: 1, ..manifest() };
    let text = serde_json::to_string(&serde_json::json!({"crc32c": 0, "manifest": old}));
    assert_eq!(Manifest::unseal(&text.unwrap(), Some(&KEY)), Err(ManifestError::Format(1)));
}
