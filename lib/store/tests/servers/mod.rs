//! Real servers for tests: started when the first test wants one, ended with the last that has it.
#![allow(dead_code, reason = "each test program takes what it needs of it")]

use std::sync::{Arc, Mutex, PoisonError, Weak};

use rocferry_vm::{Registry, RegistryOptions, S3Server, Servers};

pub(crate) mod proxy;

/// What is shared among the tests that run at the same time.
struct Shared<T>(Mutex<Weak<T>>);

impl<T> Shared<T> {
    const fn new() -> Self {
        Self(Mutex::new(Weak::new()))
    }

    fn get(&self, start: impl FnOnce(&Servers) -> T) -> Arc<T> {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = running.upgrade() {
            return running;
        }
        let started = Arc::new(start(&servers()));
        *running = Arc::downgrade(&started);
        started
    }
}

/// Where the programs come from; says what is needed when they cannot be had.
pub(crate) fn servers() -> Servers {
    Servers::open().unwrap_or_else(|error| panic!("{error:#}"))
}

/// An S3 server with room.
pub(crate) fn s3() -> Arc<S3Server> {
    static RUNNING: Shared<S3Server> = Shared::new();
    RUNNING.get(|servers| small_s3(servers, None))
}

/// An S3 server over a small disk.
pub(crate) fn small_s3(servers: &Servers, disk_mib: Option<u32>) -> S3Server {
    servers
        .start_s3(disk_mib)
        .unwrap_or_else(|error| panic!("{error:#}"))
}

/// A registry with room, open to everybody.
pub(crate) fn registry() -> Arc<Registry> {
    static RUNNING: Shared<Registry> = Shared::new();
    RUNNING.get(|servers| other_registry(servers, RegistryOptions::default()))
}

/// A registry of another kind.
pub(crate) fn other_registry(servers: &Servers, options: RegistryOptions) -> Registry {
    servers
        .start_registry(options)
        .unwrap_or_else(|error| panic!("{error:#}"))
}

/// An address where nobody listens.
pub(crate) fn nobody() -> String {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("address").to_string()
}
