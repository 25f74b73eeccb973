//! What differs, and what is too old.

use std::time::Duration;

use rocferry_image::manifest::{CheckpointId, Manifest};
use rocferry_store::Store;
use rocferry_store::diff::{BlockCounts, Change, DiffError, diff};
use rocferry_store::push::{Facts, NewContent, NewEntry};
use rocferry_store::retention::{Candidate, ExpiredReason, RetentionPolicy};

use crate::samples::{block, entry, file, key_file, memory, now_ms, open, open_with, pushed};

async fn stored(store: &Store, entries: Vec<NewEntry>) -> Manifest {
    let mut upload = store
        .push(crate::samples::push_options())
        .await
        .expect("begun");
    for entry in entries {
        upload.add(entry).expect("added");
    }
    upload.finish(Facts::default()).await.expect("stored")
}

fn length(number: u64) -> u64 {
    block(number).len() as u64
}

#[tokio::test]
async fn files_and_labelled_parts_are_compared() {
    let store = open(&memory()).await;
    let touched = |path| NewEntry {
        modified_ms: 2000,
        ..file(path, &[7])
    };
    let old = stored(
        &store,
        vec![
            file("a-same", &[1, 2]),
            file("b-changed", &[1, 2, 3, 4]),
            file("c-gone", &[5]),
            file("d-touched", &[7]),
            entry("e-kind", NewContent::Directory),
            entry("f-link", NewContent::Symlink("one".to_owned())),
        ],
    )
    .await;
    let new = stored(
        &store,
        vec![
            file("a-same", &[1, 2]),
            // The third is gone, and one is new before the fourth.
            file("b-changed", &[1, 2, 9, 4]),
            touched("d-touched"),
            file("e-kind", &[]),
            entry("f-link", NewContent::Symlink("two".to_owned())),
            file("g-new", &[5, 11]),
        ],
    )
    .await;
    let diff = diff(&old, &new).expect("comparable");
    let files: Vec<_> = diff
        .files
        .iter()
        .map(|file| (file.path.as_str(), file.change))
        .collect();
    let expected = [
        ("b-changed", Change::Changed),
        ("c-gone", Change::Removed),
        ("d-touched", Change::Metadata),
        ("e-kind", Change::Changed),
        ("f-link", Change::Changed),
        ("g-new", Change::Added),
    ];
    assert_eq!(files, expected);
    assert_eq!(diff.unchanged_files, 1);
    let counts = |shared, new, new_bytes| BlockCounts {
        zero: 0,
        shared,
        new,
        new_bytes,
    };
    assert_eq!(diff.files[0].blocks, counts(3, 1, length(9)));
    assert_eq!(diff.files[1].blocks, BlockCounts::default());
    assert_eq!(
        (diff.files[1].old_size, diff.files[1].new_size),
        (length(5), 0)
    );
    // It was in another file.
    assert_eq!(diff.files[5].blocks, counts(1, 1, length(11)));
    assert_eq!(diff.blocks, counts(7, 2, length(9) + length(11)));
    let spans: Vec<_> = diff
        .spans
        .iter()
        .map(|span| {
            (
                span.path.as_str(),
                span.label.as_str(),
                span.change,
                span.changed_bytes,
            )
        })
        .collect();
    // Whether the fourth lies at another place depends on the sizes of the third and the ninth.
    assert_ne!(length(3), length(9));
    let expected = [
        ("b-changed", "block 3", Change::Removed, length(3)),
        ("b-changed", "block 4", Change::Metadata, 0),
        ("b-changed", "block 9", Change::Added, length(9)),
        ("c-gone", "block 5", Change::Removed, length(5)),
        ("g-new", "block 11", Change::Added, length(11)),
        ("g-new", "block 5", Change::Added, length(5)),
    ];
    assert_eq!(spans, expected);
    // a-same 1 2, b-changed 1 2, d-touched 7.
    assert_eq!(diff.unchanged_spans, 5);
    let json = serde_json::to_value(&diff).expect("JSON");
    assert_eq!(json["files"][2]["change"], "metadata");
    assert_eq!(json["old"], old.id.as_str());
}

#[tokio::test]
async fn a_checkpoint_does_not_differ_from_itself() {
    let store = open(&memory()).await;
    let one = pushed(&store, &[1, 2, 2, 3]).await;
    let same = diff(&one, &one).expect("comparable");
    assert!(same.files.is_empty() && same.spans.is_empty());
    assert_eq!((same.unchanged_files, same.unchanged_spans), (1, 4));
    assert_eq!(same.blocks.new, 0);
}

#[tokio::test]
async fn a_part_that_changes_is_told_by_blocks() {
    use rocferry_image::manifest::{BLOCK_SIZE, BlockRef, Content};
    let store = open(&memory()).await;
    let old = pushed(&store, &[1, 2]).await;
    let mut new = old.clone();
    let Content::Regular(spans) = &mut new.files[0].content else {
        panic!("no file")
    };
    // The first part grows by a block of zeros and a short one, the first block stays as it is.
    let first = *spans[0].blocks.get(0).expect("a block");
    let mut before = old.clone();
    let Content::Regular(old_spans) = &mut before.files[0].content else {
        panic!("no file")
    };
    old_spans[0].size = BLOCK_SIZE.into();
    spans[0].size = 2 * u64::from(BLOCK_SIZE) + 5;
    spans[0].blocks = vec![first, BlockRef::Zero, first].into();
    let diff = diff(&before, &new).expect("comparable");
    let span = &diff.spans[0];
    assert_eq!(
        (span.label.as_str(), span.change),
        ("block 1", Change::Changed)
    );
    assert_eq!(
        (span.changed_blocks, span.changed_bytes),
        (2, u64::from(BLOCK_SIZE) + 5)
    );
    assert_eq!(diff.files[0].blocks.zero, 1);
}

#[tokio::test]
async fn checkpoints_of_different_keys_cannot_be_compared() {
    let backend = memory();
    let store = open_with(&backend, &key_file()).await;
    let old = pushed(&store, &[1]).await;
    let (_, mut keyring) = rocferry_store::seal::open_store(&*backend, &key_file(), 1)
        .await
        .expect("opens");
    keyring
        .rotate(&*backend, &key_file(), now_ms())
        .await
        .expect("rotated");
    let store = open_with(&backend, &key_file()).await;
    let new = pushed(&store, &[1]).await;
    let error = diff(&old, &new).expect_err("other keys");
    let DiffError::DataKeys {
        old_key, new_key, ..
    } = &error
    else {
        panic!("{error}");
    };
    assert_ne!(old_key, new_key);
    assert!(
        error
            .to_string()
            .contains(&new_key.expect("sealed").to_string())
    );
}

const DAY: u64 = 24 * 3600 * 1000;
const NOW: u64 = 100 * DAY;

fn candidate(day: u64, group: &str, pinned: bool) -> Candidate {
    let at = std::time::UNIX_EPOCH + Duration::from_secs(day);
    Candidate {
        id: CheckpointId::new(at, [0; 6]),
        created_ms: day * DAY,
        bytes: 10,
        pinned,
        group: group.to_owned(),
    }
}

fn expired(policy: RetentionPolicy, all: &[Candidate]) -> Vec<(u64, ExpiredReason)> {
    let expired = policy.expired(all, NOW).into_iter();
    expired
        .map(|one| {
            let found = all.iter().find(|candidate| candidate.id == one.id);
            (found.expect("one of them").created_ms / DAY, one.reason)
        })
        .collect()
}

#[test]
fn the_newest_ones_are_kept() {
    let all: Vec<_> = [98, 96, 97, 95]
        .map(|day| candidate(day, "a", false))
        .into();
    let last = |last| RetentionPolicy {
        last: Some(last),
        ..RetentionPolicy::default()
    };
    use ExpiredReason::Rules;
    assert_eq!(expired(last(2), &all), [(95, Rules), (96, Rules)]);
    assert_eq!(expired(last(4), &all), []);
    // The newest one always.
    assert_eq!(
        expired(last(0), &all),
        [(95, Rules), (96, Rules), (97, Rules)]
    );
    assert_eq!(expired(RetentionPolicy::default(), &all), []);
    // Each group by itself, and what is pinned counts but stays.
    let mut all = all;
    all[1].pinned = true;
    all.push(candidate(3, "b", false));
    assert_eq!(expired(last(1), &all), [(95, Rules), (97, Rules)]);
}

#[test]
fn young_ones_are_kept() {
    let all: Vec<_> = [90, 95, 96, 99]
        .map(|day| candidate(day, "a", false))
        .into();
    let within = Some(Duration::from_millis(4 * DAY));
    let policy = RetentionPolicy {
        within,
        ..RetentionPolicy::default()
    };
    use ExpiredReason::Rules;
    assert_eq!(expired(policy, &all), [(90, Rules), (95, Rules)]);
    // Either will do.
    let policy = RetentionPolicy {
        last: Some(3),
        ..policy
    };
    assert_eq!(expired(policy, &all), [(90, Rules)]);
    // By a clock that is ahead.
    assert_eq!(
        expired(
            policy,
            &[candidate(101, "a", false), candidate(102, "a", false)]
        ),
        []
    );
}

#[test]
fn the_oldest_ones_go_when_there_are_too_many_bytes() {
    let mut all: Vec<_> = [90, 91, 92, 93]
        .map(|day| candidate(day, "a", false))
        .into();
    all.push(candidate(1, "b", false));
    let policy = RetentionPolicy {
        bytes: Some(35),
        ..RetentionPolicy::default()
    };
    use ExpiredReason::{Bytes, Rules};
    assert_eq!(expired(policy, &all), [(90, Bytes), (91, Bytes)]);
    all[0].pinned = true;
    assert_eq!(expired(policy, &all), [(91, Bytes), (92, Bytes)]);
    // What the rules take counts first.
    let policy = RetentionPolicy {
        last: Some(2),
        ..policy
    };
    assert_eq!(expired(policy, &all), [(91, Rules), (92, Bytes)]);
    let policy = RetentionPolicy {
        bytes: Some(0),
        ..RetentionPolicy::default()
    };
    // The newest of each group and what is pinned stay, also when that is too much.
    assert_eq!(expired(policy, &all), [(91, Bytes), (92, Bytes)]);
}
