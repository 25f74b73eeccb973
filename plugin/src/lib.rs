//! `amdgpu_plugin.so`: CRIU's plugin C ABI, and nothing else.
//!
//! A drop-in for CRIU's own plugin of that name: same descriptor and inventory name, environment variables
//! and image files. One build loads into every CRIU from 3.17 on. What the hooks do lives in
//! `rocferry_gpu`; here are the descriptor, the guard around every entry, and CRIU's functions, found by
//! name at run time.

mod board;
mod descriptor;
mod guard;
mod hooks;
mod host;
mod state;
mod symbols;

pub use descriptor::CR_PLUGIN_DESC;
