//! What the linker must know of the dynamic library. Which symbols it shows is decided by the compiler: those of C alone.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Until 1.0 a minor version may break the interface, and then the name changes.
    let version = |part: &str| std::env::var(format!("CARGO_PKG_VERSION_{part}")).unwrap_or_default();
    let abi = if version("MAJOR") == "0" { format!("0.{}", version("MINOR")) } else { version("MAJOR") };
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libkumiki.so.{abi}");
    // Its threads must not find their code gone after a dlclose.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
