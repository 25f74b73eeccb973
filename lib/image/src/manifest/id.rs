//! Identifiers of a checkpoint and of what it consists of.

use std::fmt;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

/// Text that is no identifier of the kind asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Not an identifier of this kind")]
pub struct InvalidId;

macro_rules! hex_id {
    ($(#[$doc:meta])* $name:ident($bytes:literal)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; $bytes]);

        /// Lower-case hexadecimal digits.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let digits = text.as_bytes();
                if digits.len() != 2 * $bytes {
                    return Err(InvalidId);
                }
                let digit = |byte: u8| match byte {
                    b'0'..=b'9' => Ok(byte - b'0'),
                    b'a'..=b'f' => Ok(byte - b'a' + 10),
                    _ => Err(InvalidId),
                };
                let mut bytes = [0; $bytes];
                for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
                    *byte = digit(pair[0])? << 4 | digit(pair[1])?;
                }
                Ok(Self(bytes))
            }
        }
    };
}

hex_id! {
    /// A block: keyed BLAKE3 of its content before compression and sealing.
    BlockId(32)
}

hex_id! {
    /// A pack: random.
    PackId(16)
}

hex_id! {
    /// A data key: the first bytes of a hash of it, so that keys can be told apart without telling them.
    DataKeyId(8)
}

/// A checkpoint: `YYYYMMDDtHHMMSS-` (UTC) and 12 random lower-case hexadecimal digits, so that names sort by
/// age and fit wherever Kubernetes and registries take a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckpointId(String);

impl CheckpointId {
    /// A new name. `now` is put to the nearest year from 1970 to 9999; `random` must be random, since two
    /// checkpoints of the same second differ in nothing else.
    #[must_use]
    pub fn new(now: SystemTime, random: [u8; 6]) -> Self {
        let since_1970 = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = since_1970.as_secs().min(LAST_SECOND);
        let (year, month, day) = date(seconds / 86_400);
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        let mut name = format!("{year:04}{month:02}{day:02}t{hour:02}{minute:02}{second:02}-");
        for byte in random {
            name.push_str(&format!("{byte:02x}"));
        }
        Self(name)
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The last second of the year 9999, since 1970.
const LAST_SECOND: u64 = 253_402_300_799;

/// Year, month and day of a day since 1970, in the Gregorian calendar.
const fn date(days: u64) -> (u64, u64, u64) {
    // Years that begin in March have their leap day last; 400 of them have 146,097 days, always.
    const DAYS_OF_ERA: u64 = 146_097;
    // From the first of March of the year 0 to 1970.
    let days = days + 719_468;
    let (era, day_of_era) = (days / DAYS_OF_ERA, days % DAYS_OF_ERA);
    let leap_days = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / (DAYS_OF_ERA - 1);
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months from March on have 30.6 days on average: 153 in five.
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let january_or_february = month >= 10;
    let year = 400 * era + year_of_era + january_or_february as u64;
    let month = if january_or_february {
        month - 9
    } else {
        month + 3
    };
    (year, month, day)
}

impl fmt::Display for CheckpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for CheckpointId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let fits = text.len() == 28
            && text.bytes().enumerate().all(|(index, byte)| match index {
                8 => byte == b't',
                15 => byte == b'-',
                0..16 => byte.is_ascii_digit(),
                _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
            });
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidId)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_named_after_its_time() {
        let name = |seconds: u64| {
            let now = UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            let id = CheckpointId::new(now, [0x01, 0x23, 0x45, 0x67, 0x89, 0xab]);
            assert_eq!(id.to_string().parse(), Ok(id.clone()));
            let (time, random) = id.as_str().split_once('-').expect("dash");
            assert_eq!(random, "0123456789ab");
            time.to_owned()
        };
        // From `date -u +%Y%m%dt%H%M%S -d @SECONDS`.
        for (seconds, expected) in [
            (0, "19700101t000000"),
            (68_169_599, "19720228t235959"),
            (68_169_600, "19720229t000000"),
            (951_782_400, "20000229t000000"),
            (951_868_800, "20000301t000000"),
            (1_796_003_055, "20261130t014415"),
            (4_107_542_400, "21000301t000000"),
            (253_402_300_799, "99991231t235959"),
            (253_402_300_800, "99991231t235959"),
        ] {
            assert_eq!(name(seconds), expected);
        }
        let before = UNIX_EPOCH - std::time::Duration::from_secs(1);
        let id = CheckpointId::new(before, [0; 6]);
        assert_eq!(id.as_str(), "19700101t000000-000000000000");
        // Every day of 400 years is the one after the one before it.
        let days = |month: u64, year: u64| match month {
            2 if year.is_multiple_of(4)
                && (!year.is_multiple_of(100) || year.is_multiple_of(400)) =>
            {
                29
            }
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let mut expected = (1970, 1, 1);
        for day in 0..146_097 {
            assert_eq!(date(day), expected);
            let (year, month, day) = expected;
            expected = match (day < days(month, year), month) {
                (true, _) => (year, month, day + 1),
                (false, 12) => (year + 1, 1, 1),
                (false, _) => (year, month + 1, 1),
            };
        }
    }

    #[test]
    fn identifiers_read_what_they_print() {
        let pack = PackId([0xa5; 16]);
        assert_eq!(pack.to_string().parse(), Ok(pack));
        assert_eq!("A5".repeat(16).parse::<PackId>(), Err(InvalidId));
        assert_eq!("a5".repeat(15).parse::<PackId>(), Err(InvalidId));
        assert_eq!("é".repeat(16).parse::<PackId>(), Err(InvalidId));
        let name = "20261130t014415-0123456789ab";
        let id: CheckpointId = name.parse().expect("id");
        assert_eq!(id.to_string(), name);
        for wrong in [
            "",
            "20261130T014415-0123456789ab",
            "20261130t014415-0123456789aG",
            "20261130t0144150123456789abc",
        ] {
            assert_eq!(wrong.parse::<CheckpointId>(), Err(InvalidId), "{wrong}");
        }
    }
}
