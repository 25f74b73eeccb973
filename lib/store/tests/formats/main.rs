//! What lies in a store: keys, packs and manifests together, as whoever can read or write the store sees them.

mod keys;
mod manifests;
mod packs;
mod samples;
mod small;
