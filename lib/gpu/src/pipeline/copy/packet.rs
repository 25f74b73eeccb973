//! SDMA packets.

use rocferry_kfd::drm::Family;

/// Dwords of a linear copy packet.
const COPY_DWORDS: usize = 7;
/// Commands are padded with no-operations to a multiple of this many dwords.
const PAD_DWORDS: usize = 8;
/// Header: operation 1 (copy), sub-operation 0 (linear).
const COPY_LINEAR: u32 = 1;
/// A no-operation of one dword.
const NOP: u32 = 0;

/// Most bytes of one packet.
pub(super) fn max_bytes(family: Family) -> u64 {
    if family >= Family::AI {
        // SDMA 4 and later take 4 MiB; half of it is within what every generation's own driver uses.
        2 << 20
    } else {
        0x1f_ffe0
    }
}

/// The most dwords of commands that copy `bytes` bytes in `parts` parts, padding included.
pub(super) fn most_dwords(family: Family, parts: usize, bytes: u64) -> usize {
    let packets = usize::try_from(bytes / max_bytes(family)).unwrap_or(usize::MAX);
    // Each part can begin a packet of its own.
    packets
        .saturating_add(parts)
        .saturating_mul(COPY_DWORDS)
        .next_multiple_of(PAD_DWORDS)
}

/// Adds the commands that copy `bytes` bytes from one GPU virtual address to another.
pub(super) fn add_copy(dwords: &mut Vec<u32>, family: Family, from: u64, to: u64, bytes: u64) {
    let mut done = 0;
    while done < bytes {
        let now = (bytes - done).min(max_bytes(family));
        // From SDMA 4 on the field holds the number of bytes less one.
        let count = if family >= Family::AI { now - 1 } else { now };
        let (from_low, from_high) = halves(from + done);
        let (to_low, to_high) = halves(to + done);
        let (count, _) = halves(count);
        dwords.extend([COPY_LINEAR, count, 0, from_low, from_high, to_low, to_high]);
        done += now;
    }
}

/// Brings the commands to a length that the engine takes.
pub(super) fn pad(dwords: &mut Vec<u32>) {
    dwords.resize(dwords.len().next_multiple_of(PAD_DWORDS), NOP);
}

/// Low and high 32 bits.
fn halves(value: u64) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = value.to_le_bytes();
    (
        u32::from_le_bytes([a, b, c, d]),
        u32::from_le_bytes([e, f, g, h]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: u64 = 0x1_2345_6000;
    const TO: u64 = 0x7_0000_1000;

    fn copy_commands(family: Family, from: u64, to: u64, bytes: u64) -> Vec<u32> {
        let mut dwords = Vec::new();
        add_copy(&mut dwords, family, from, to, bytes);
        pad(&mut dwords);
        dwords
    }

    #[test]
    fn the_count_is_one_less_from_sdma_4_on() {
        for (family, count) in [
            (Family::VI, 0x3000),
            (Family::AI, 0x2fff),
            (Family(143), 0x2fff),
        ] {
            assert_eq!(
                copy_commands(family, FROM, TO, 0x3000),
                [1, count, 0, 0x2345_6000, 1, 0x1000, 7, 0],
                "{family:?}"
            );
        }
    }

    #[test]
    fn packets_cover_every_byte_once() {
        for family in [
            Family(120),
            Family::VI,
            Family(135),
            Family::AI,
            Family(149),
        ] {
            for bytes in [4096, 0x1f_f000, 0x20_0000, 0x20_1000, 4 << 20] {
                let dwords = copy_commands(family, FROM, TO, bytes);
                assert!(dwords.len() <= most_dwords(family, 1, bytes));
                assert_eq!(dwords.len() % PAD_DWORDS, 0);
                let mut done = 0;
                for packet in dwords
                    .chunks_exact(COPY_DWORDS)
                    .filter(|packet| packet[0] != NOP)
                {
                    let count = u64::from(packet[1]) + u64::from(family >= Family::AI);
                    let address =
                        |low: usize| u64::from(packet[low + 1]) << 32 | u64::from(packet[low]);
                    assert_eq!((address(3), address(5)), (FROM + done, TO + done));
                    assert!(count <= max_bytes(family));
                    assert_eq!(count % 4, 0);
                    done += count;
                }
                assert_eq!(done, bytes);
            }
        }
    }
}
