//! Why a member is refused.

use thiserror::Error;

/// What is wrong with a member. Each is a sentence about it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It begins with `/`.
    #[error("Its path is absolute")]
    Absolute,
    /// It leads upwards.
    #[error("Its path has a .. part")]
    Upwards,
    /// The same file could be named in another way.
    #[error("Its path has an empty or . part")]
    Detour,
    /// It has no name.
    #[error("Its name is empty")]
    Unnamed,
    /// No text, and paths of a checkpoint are.
    #[error("Its path is not UTF-8")]
    NotText,
    /// The name ends somewhere for some readers.
    #[error("Its path has a zero byte")]
    ZeroByte,
    /// Longer than a path or a part of one can be.
    #[error("Its path, or a part of it, is too long ({bytes} bytes, the limit is {limit})")]
    PathLength {
        /// Bytes found.
        bytes: usize,
        /// Most bytes.
        limit: usize,
    },
    /// An image's layer would take it for a deletion.
    #[error("A part of its path begins with .wh., which means a deletion in an image")]
    Whiteout,
    /// It was there before.
    #[error("It is there twice")]
    Duplicate,
    /// What its path leads through is a file.
    #[error("What it is in is no directory")]
    NotInDirectory,
    /// A link, a device, or anything else that no checkpoint consists of.
    #[error("It is {what}; there can be nothing but files and directories")]
    Kind {
        /// What it is.
        what: &'static str,
    },
    /// A file whose path ends with `/` is a directory for some readers.
    #[error("It is a file, but its path ends with /")]
    FileWithSlash,
    /// A directory with bytes: some readers skip them, some do not.
    #[error("It is a directory with {bytes} bytes of content")]
    DirectoryContent {
        /// Bytes.
        bytes: u64,
    },
    /// A header that is no number.
    #[error("Its {field} is no number that can be")]
    Number {
        /// The field.
        field: &'static str,
    },
    /// The header does not fit its check sum.
    #[error("The check sum of its header is wrong")]
    Checksum,
    /// An old or unknown kind of header.
    #[error("Its header is neither ustar nor GNU")]
    Format,
    /// An extension header that is larger than any needs to be.
    #[error("Its {what} has {bytes} bytes, the limit is {limit}")]
    HeaderSize {
        /// Which one.
        what: &'static str,
        /// Bytes found.
        bytes: u64,
        /// Most bytes.
        limit: u64,
    },
    /// Extension headers that contradict each other.
    #[error("It has two {what}")]
    Twice {
        /// Of what.
        what: &'static str,
    },
    /// An extension header that cannot be read.
    #[error("Its PAX header is broken: {reason}")]
    Pax {
        /// How.
        reason: &'static str,
    },
    /// An extension header for all members to come.
    #[error("A PAX header for all members says {key:?}")]
    Global {
        /// What it says.
        key: String,
    },
    /// An extension header that nothing follows.
    #[error("An extension header has no member")]
    Dangling,
    /// A sparse file that cannot be.
    #[error("It is sparse: {reason}")]
    Sparse {
        /// What is wrong.
        reason: &'static str,
    },
    /// Larger than allowed.
    #[error("It has {bytes} bytes, the limit is {limit}")]
    Size {
        /// Bytes it says it has.
        bytes: u64,
        /// Most bytes.
        limit: u64,
    },
    /// More members than allowed.
    #[error("It is one more than the {limit} that there may be")]
    Members {
        /// Most of them.
        limit: usize,
    },
    /// More bytes of paths than allowed.
    #[error("All paths together have more than {limit} bytes")]
    PathBytes {
        /// Most of them.
        limit: usize,
    },
    /// All files together are larger than allowed.
    #[error("With it, all files have {bytes} bytes, the limit is {limit}")]
    Total {
        /// Bytes up to now.
        bytes: u64,
        /// Most of them.
        limit: u64,
    },
    /// Not the JSON that it should be.
    #[error("It is not the JSON that it should be: {reason}")]
    Json {
        /// What the parser says.
        reason: String,
    },
    /// A device that would be given to whatever is made from the archive.
    #[error("It asks for CDI devices ({key:?})")]
    Cdi {
        /// The annotation or field.
        key: String,
    },
}
