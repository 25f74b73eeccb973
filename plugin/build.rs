//! Link options of the plugin.

fn main() {
    // CRIU closes the library after exit(); a late TLS destructor must still find its code.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
}
