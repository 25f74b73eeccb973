//! OCI images of checkpoints: one layer, which is the archive, and the annotations by which each engine sees
//! that the image is a checkpoint.

mod annotations;
mod error;
mod layout;
mod read;
mod write;

pub use annotations::ImageNames;
pub use error::ImageError;
pub use read::{ReadImage, read_image};
pub use write::{WrittenImage, write_image};
