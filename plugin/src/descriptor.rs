//! The descriptor that CRIU looks up by name (`criu/include/criu-plugin.h`: `cr_plugin_desc_t`).

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::{offset_of, size_of};

use crate::hooks;

/// Interface version 0.2.0, the same in every CRIU from 3.17 to 4.2.
const VERSION: c_uint = 0x0000_0200;

/// Hooks 0 to 9 exist in every CRIU from 3.17 on. A descriptor that announces more than its host knows is
/// refused, and then the host dumps nothing at all; none of the later hooks is needed here.
const HOOK_COUNT: usize = 10;

/// `int (*)(int stage)`.
type Init = extern "C" fn(c_int) -> c_int;
/// `void (*)(int stage, int ret)`.
type Exit = extern "C" fn(c_int, c_int);

/// One slot per hook, in CRIU's order; `None` is C's NULL. A slot of its own type makes a wrong signature a
/// compile error.
#[derive(Debug)]
#[repr(C)]
struct Hooks {
    dump_unix_sk: Option<extern "C" fn(c_int, c_int) -> c_int>,
    restore_unix_sk: Option<extern "C" fn(c_int) -> c_int>,
    dump_ext_file: Option<extern "C" fn(c_int, c_int) -> c_int>,
    restore_ext_file: Option<unsafe extern "C" fn(c_int, *mut bool) -> c_int>,
    dump_ext_mount: Option<extern "C" fn(*const c_char, c_int) -> c_int>,
    restore_ext_mount:
        Option<extern "C" fn(c_int, *const c_char, *const c_char, *mut c_int) -> c_int>,
    dump_ext_link: Option<extern "C" fn(c_int, c_int, *const c_char) -> c_int>,
    handle_device_vma: Option<unsafe extern "C" fn(c_int, *const libc::stat) -> c_int>,
    update_vma_map:
        Option<unsafe extern "C" fn(*const c_char, u64, u64, *mut u64, *mut c_int) -> c_int>,
    resume_devices_late: Option<extern "C" fn(c_int) -> c_int>,
}

/// `cr_plugin_desc_t` with ten hooks.
#[derive(Debug)]
#[repr(C)]
pub struct PluginDescriptor {
    name: *const c_char,
    init: Option<Init>,
    exit: Option<Exit>,
    version: c_uint,
    max_hooks: c_uint,
    hooks: Hooks,
}

// SAFETY: nothing changes after linking, and the one pointer is to a static string.
unsafe impl Sync for PluginDescriptor {}

const _: () = assert!(
    offset_of!(PluginDescriptor, hooks) == 32
        && size_of::<Hooks>() == HOOK_COUNT * size_of::<*const c_void>()
);

/// The symbol that CRIU looks for after `dlopen`.
#[unsafe(no_mangle)]
pub static CR_PLUGIN_DESC: PluginDescriptor = PluginDescriptor {
    name: c"amdgpu_plugin".as_ptr(),
    init: Some(hooks::init),
    exit: Some(hooks::exit),
    version: VERSION,
    #[expect(clippy::cast_possible_truncation, reason = "ten")]
    max_hooks: HOOK_COUNT as c_uint,
    hooks: Hooks {
        dump_unix_sk: None,
        restore_unix_sk: None,
        dump_ext_file: Some(hooks::dump_ext_file),
        restore_ext_file: Some(hooks::restore_ext_file),
        dump_ext_mount: None,
        restore_ext_mount: None,
        dump_ext_link: None,
        handle_device_vma: Some(hooks::handle_device_vma),
        update_vma_map: Some(hooks::update_vma_map),
        resume_devices_late: Some(hooks::resume_devices_late),
    },
};
