//! Archives that engines leave: read for a restore, and taken into a store where the administrator's settings say so.

mod unpack;

pub(crate) use unpack::{look, unpack};
