//! Checkpoints on their way into a store and out of it.

mod archives;
mod broken;
mod growing;
mod killed;
mod lab;
mod resume;
mod round_trip;
mod secret;
