//! CRIU's functions, looked up by name when the plugin is loaded.
//!
//! Declaring them `extern` would bind them at `dlopen`, and one that a CRIU version lacks would then keep
//! that CRIU from working at all.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::transmute;
use std::sync::OnceLock;

/// Looks a symbol up in the host program.
fn find(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: RTLD_DEFAULT and a NUL-terminated name are always valid arguments of dlsym.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

/// Looks up a function and gives it the type of its C prototype.
macro_rules! host_fn {
    ($name:literal as $ty:ty) => {
        find($name).map(|address| {
            // SAFETY: the symbol is CRIU's function of that name, whose prototype is the one given.
            unsafe { transmute::<*mut c_void, $ty>(address) }
        })
    };
}

/// CRIU's functions that the plugin uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Symbols {
    /// `void print_on_level(unsigned, const char *fmt, ...)`
    pub(crate) print_on_level: Option<unsafe extern "C" fn(c_uint, *const c_char, ...)>,
    /// `unsigned log_get_loglevel(void)`
    pub(crate) log_get_loglevel: Option<unsafe extern "C" fn() -> c_uint>,
    /// `int criu_get_image_dir(void)`
    pub(crate) criu_get_image_dir: unsafe extern "C" fn() -> c_int,
    /// `int get_service_fd(int type)`
    pub(crate) get_service_fd: unsafe extern "C" fn(c_int) -> c_int,
    /// `int img_streamer_open(char *name, int flags)`
    pub(crate) img_streamer_open: Option<unsafe extern "C" fn(*mut c_char, c_int) -> c_int>,
    /// `int fdstore_add(int fd)`
    pub(crate) fdstore_add: unsafe extern "C" fn(c_int) -> c_int,
    /// `int fdstore_get(int id)`
    pub(crate) fdstore_get: unsafe extern "C" fn(c_int) -> c_int,
    /// `int add_inventory_plugin(const char *name)`, CRIU 4.1 and later
    pub(crate) add_inventory_plugin: Option<unsafe extern "C" fn(*const c_char) -> c_int>,
    /// `bool check_and_remove_inventory_plugin(const char *name, size_t n)`, CRIU 4.1 and later
    pub(crate) check_and_remove_inventory_plugin:
        Option<unsafe extern "C" fn(*const c_char, usize) -> bool>,
    /// CRIU 3.19 and later: takes over the descriptor of `UPDATE_VMA_MAP`.
    pub(crate) takes_over_vma_fd: bool,
}

/// Hooks known to the oldest CRIU that the plugin loads into.
const OLDEST_HOOK_COUNT: usize = 10;
/// `cr_plugin_ctl` is a list head and one list head per hook (`criu/include/plugin.h`).
const LIST_HEAD_BYTES: usize = 16;

impl Symbols {
    /// Finds everything.
    ///
    /// # Errors
    /// Name of a function that is missing although every supported CRIU has it.
    pub(crate) fn resolve() -> Result<Self, &'static str> {
        Ok(Self {
            print_on_level: host_fn!(
                c"print_on_level" as unsafe extern "C" fn(c_uint, *const c_char, ...)
            ),
            log_get_loglevel: host_fn!(c"log_get_loglevel" as unsafe extern "C" fn() -> c_uint),
            criu_get_image_dir: host_fn!(c"criu_get_image_dir" as unsafe extern "C" fn() -> c_int)
                .ok_or("criu_get_image_dir")?,
            get_service_fd: host_fn!(c"get_service_fd" as unsafe extern "C" fn(c_int) -> c_int)
                .ok_or("get_service_fd")?,
            img_streamer_open: host_fn!(
                c"img_streamer_open" as unsafe extern "C" fn(*mut c_char, c_int) -> c_int
            ),
            fdstore_add: host_fn!(c"fdstore_add" as unsafe extern "C" fn(c_int) -> c_int)
                .ok_or("fdstore_add")?,
            fdstore_get: host_fn!(c"fdstore_get" as unsafe extern "C" fn(c_int) -> c_int)
                .ok_or("fdstore_get")?,
            add_inventory_plugin: host_fn!(
                c"add_inventory_plugin" as unsafe extern "C" fn(*const c_char) -> c_int
            ),
            check_and_remove_inventory_plugin: host_fn!(
                c"check_and_remove_inventory_plugin"
                    as unsafe extern "C" fn(*const c_char, usize) -> bool
            ),
            // 3.17, 3.18 and 3.19 know the same hooks; this function came with 3.19.
            takes_over_vma_fd: host_hook_count() > OLDEST_HOOK_COUNT
                || find(c"rpc_query_external_files").is_some(),
        })
    }
}

/// Does the host pass a second argument to hook 3? It came together with the fourteenth and fifteenth hook.
pub(crate) fn restore_hook_has_retry() -> bool {
    host_hook_count() >= 14
}

/// How many hooks the host knows.
fn host_hook_count() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(measure_hook_table)
}

/// The count, told by the size of the host's table of hook chains.
fn measure_hook_table() -> usize {
    let Some(table) = find(c"cr_plugin_ctl") else {
        return OLDEST_HOOK_COUNT;
    };
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    let mut symbol: *mut c_void = std::ptr::null_mut();
    // SAFETY: `table` is an address of the host, both results are valid for writing.
    let found = unsafe { dladdr1(table, &raw mut info, &raw mut symbol, RTLD_DL_SYMENT) };
    if found == 0 || symbol.is_null() || info.dli_saddr != table {
        return OLDEST_HOOK_COUNT;
    }
    // SAFETY: with RTLD_DL_SYMENT the last result points to the ELF symbol of the address.
    let size = unsafe { (*symbol.cast::<libc::Elf64_Sym>()).st_size };
    let size = usize::try_from(size).unwrap_or(0);
    (size.saturating_sub(LIST_HEAD_BYTES) / LIST_HEAD_BYTES).max(OLDEST_HOOK_COUNT)
}

/// `RTLD_DL_SYMENT` of glibc's `dlfcn.h`.
const RTLD_DL_SYMENT: c_int = 1;

unsafe extern "C" {
    /// glibc's extended `dladdr`; the libc crate does not declare it.
    fn dladdr1(
        address: *const c_void,
        info: *mut libc::Dl_info,
        extra: *mut *mut c_void,
        flags: c_int,
    ) -> c_int;
}
