//! Blocks, columns and packs that do not fit together.

use super::super::wire;
use super::damage::{Change, read, refused, span};
use super::sample::Messages;
use super::*;

#[test]
fn blocks_are_where_they_can_be() {
    let on_block = |block, reason| {
        Err(ManifestError::Block {
            path: "checkpoint/pages-1.img".to_owned(),
            span: 0,
            block,
            reason,
        })
    };
    let length = "its length in the pack does not fit its size";
    let outside = "its offset is outside any pack";
    let list = "its pack is not in the list";
    // Blocks 0 and 2 are stored, in this order.
    assert_eq!(
        read(|m| {
            span(m).packs[1] = 2;
        }),
        on_block(2, list)
    );
    assert_eq!(
        read(|m| {
            span(m).packs[1] = u32::MAX;
        }),
        on_block(2, list)
    );
    assert_eq!(
        read(|m| {
            span(m).stored[1] = 11;
        }),
        on_block(2, length)
    );
    assert_eq!(
        read(|m| {
            span(m).stored[1] = 0;
        }),
        on_block(2, length)
    );
    assert_eq!(
        read(|m| {
            span(m).offsets[0] = 39;
        }),
        on_block(0, outside)
    );
    assert_eq!(
        read(|m| {
            span(m).offsets[0] = u64::MAX;
        }),
        on_block(0, outside)
    );
    let end = MAX_PACK - u64::from(BLOCK_SIZE);
    assert_eq!(
        read(|m| {
            span(m).offsets[0] = end + 1;
        }),
        on_block(0, outside)
    );
    read(|m| {
        span(m).offsets[0] = end;
    })
    .expect("just fits");
    // A raw block of a sealed store is 40 bytes longer.
    assert_eq!(
        read(|m| {
            m.0.data_key = Some(vec![1; 8]);
        }),
        on_block(0, length)
    );
    let sealed = read(|m| {
        m.0.data_key = Some(vec![1; 8]);
        span(m).stored = vec![BLOCK_SIZE + 40, 50];
    });
    sealed.expect("sealed");
    // A compressed one is shorter than it would be raw, and longer than its check value.
    let zstd = |stored| {
        read(|m| {
            span(m).encodings = Some(vec![1, 0]);
            span(m).stored[0] = stored;
        })
    };
    zstd(BLOCK_SIZE + 15).expect("shorter");
    assert_eq!(zstd(BLOCK_SIZE + 16), on_block(0, length));
    zstd(17).expect("longer");
    assert_eq!(zstd(16), on_block(0, length));
}

#[test]
fn columns_are_as_long_as_the_size_wants() {
    let cases: [(&str, Change<wire::Span>); 12] = [
        ("the list of zero blocks has a wrong length", |s| {
            s.zero_blocks = Some(vec![2, 0]);
        }),
        ("the list of zero blocks has a wrong length", |s| {
            s.zero_blocks = Some(vec![]);
        }),
        ("the list of zero blocks has a wrong length", |s| {
            s.size = Some(u64::MAX);
        }),
        ("the list of zero blocks has bits past its end", |s| {
            s.zero_blocks = Some(vec![0b1010]);
        }),
        ("the number of block ids does not fit the size", |s| {
            s.zero_blocks = None;
        }),
        ("the number of block ids does not fit the size", |s| {
            s.ids = Some(vec![1; 63]);
        }),
        ("the number of block ids does not fit the size", |s| {
            s.ids = None;
        }),
        ("the number of encodings does not fit the size", |s| {
            s.encodings = None;
        }),
        ("too few packs", |s| s.packs.truncate(1)),
        ("too few offsets", |s| s.offsets.truncate(1)),
        ("too many stored", |s| s.stored.push(1)),
        ("the number of block ids does not fit the size", |s| {
            s.size = Some(0);
        }),
    ];
    for (reason, change) in cases {
        let change: Box<dyn FnOnce(&mut Messages)> = match reason {
            // An empty span has no list either.
            "the number of block ids does not fit the size" => Box::new(move |m| {
                change(span(m));
                if span(m).size == Some(0) {
                    span(m).zero_blocks = None;
                }
            }),
            _ => Box::new(move |m| change(span(m))),
        };
        assert_eq!(
            refused(change),
            format!("manifest span: invalid protobuf: {reason}")
        );
    }
    let on_span = |reason| {
        let path = "checkpoint/pages-1.img".to_owned();
        Err(ManifestError::Span {
            path,
            span: 0,
            reason,
        })
    };
    let empty = read(|m| {
        *span(m) = wire::Span {
            size: Some(0),
            ..wire::Span::default()
        }
    });
    assert_eq!(empty, on_span("it is empty"));
    let label = "its label is empty, too long or not text";
    assert_eq!(
        read(|m| {
            span(m).label = Some(String::new());
        }),
        on_span(label)
    );
    assert_eq!(
        read(|m| {
            span(m).label = Some("x".repeat(1025));
        }),
        on_span(label)
    );
}

#[test]
fn packs_are_listed_once_and_used() {
    let of_pack = |number, reason| {
        let pack = sample::pack(number);
        Err(ManifestError::Pack { pack, reason })
    };
    let packs = |numbers: &[u32]| numbers.iter().flat_map(|n| sample::pack(*n).0).collect();
    assert_eq!(
        read(|m| {
            m.0.packs = Some(packs(&[0, 0]));
        }),
        of_pack(0, "is listed twice")
    );
    assert_eq!(
        read(|m| {
            m.0.packs = Some(packs(&[0, 1, 2]));
        }),
        of_pack(2, "is listed, but no block is in it")
    );
}

#[test]
fn sums_that_overflow_are_refused() {
    // All zeros, so that the sizes alone count: 64 GiB of them in 2 KiB of list.
    let zeros = |size: u64| Span {
        size,
        label: None,
        blocks: Blocks::zero(16 << 10),
    };
    let size = u64::from(BLOCK_SIZE) * (16 << 10);
    let mut manifest = small();
    manifest.packs.clear();
    manifest.files = vec![FileEntry {
        path: "a".to_owned(),
        content: Content::Regular(vec![zeros(size)]),
        ..manifest.files[0].clone()
    }];
    manifest.encode().expect("valid");
    let wrong = ManifestError::Span {
        path: "a".to_owned(),
        span: 0,
        reason: "the number of its blocks does not fit its size",
    };
    for size in [size + 1, size - u64::from(BLOCK_SIZE), u64::MAX] {
        manifest.files[0].content = Content::Regular(vec![zeros(size)]);
        assert_eq!(manifest.validate(), Err(wrong.clone()));
        assert_eq!(manifest.encode(), Err(wrong.clone()));
    }
    // Files of 2^62 bytes: one can be, two spans of one cannot, nor can four files.
    let huge = || Span {
        size: 1 << 62,
        label: None,
        blocks: Blocks::zero(1 << 40),
    };
    let file = |number: u32, spans| FileEntry {
        path: number.to_string(),
        content: Content::Regular(spans),
        ..manifest.files[0].clone()
    };
    let with = |files: Vec<FileEntry>| {
        Manifest {
            files,
            ..manifest.clone()
        }
        .validate()
    };
    assert_eq!(
        with((0..3).map(|n| file(n, vec![huge()])).collect()),
        Ok(())
    );
    assert_eq!(
        with((0..4).map(|n| file(n, vec![huge()])).collect()),
        Err(ManifestError::SumOverflow)
    );
    let too_large = ManifestError::Path {
        path: "0".to_owned(),
        reason: "the file is too large",
    };
    assert_eq!(with(vec![file(0, vec![huge(), huge()])]), Err(too_large));
}
