//! Capabilities by name (`linux/capability.h` of 6.12).

use rocferry_image::criu::Capabilities;

/// In the order of their numbers.
const NAMES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

pub(super) const SETGID: Capabilities = Capabilities(1 << 6);
pub(super) const SETUID: Capabilities = Capabilities(1 << 7);
pub(super) const SYS_ADMIN: Capabilities = Capabilities(1 << 21);

/// The capability of this name, as `CAP_CHOWN`. One that is not known grants nothing.
pub(super) fn named(name: &str) -> Capabilities {
    let short = name.strip_prefix("CAP_").unwrap_or(name);
    let at = NAMES.iter().position(|known| *known == short);
    at.map_or(Capabilities(0), |at| Capabilities(1 << at))
}

/// What the first has beyond the second.
pub(super) fn beyond(asked: Capabilities, granted: Capabilities) -> Capabilities {
    Capabilities(asked.0 & !granted.0)
}

/// Whether the second is in the first.
pub(super) fn has(set: Capabilities, one: Capabilities) -> bool {
    set.0 & one.0 == one.0
}

/// The names, with commas.
pub(super) fn list(set: Capabilities) -> String {
    let names = (0..64).filter(|bit| set.0 & 1 << bit != 0);
    let names = names.map(|bit| match NAMES.get(bit) {
        Some(name) => format!("CAP_{name}"),
        None => format!("capability {bit}"),
    });
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_at_the_kernels_numbers() {
        for (name, number) in [
            ("CAP_CHOWN", 0),
            ("CAP_SETUID", 7),
            ("CAP_SYS_ADMIN", 21),
            ("CAP_SETFCAP", 31),
            ("CAP_CHECKPOINT_RESTORE", 40),
        ] {
            assert_eq!(named(name), Capabilities(1 << number), "{name}");
            assert_eq!(list(named(name)), name);
        }
        assert_eq!(named("CAP_NOT_YET"), Capabilities(0));
        assert_eq!(list(Capabilities(1 << 63 | 1)), "CAP_CHOWN, capability 63");
    }
}
