//! A server on a free port of 127.0.0.1, with a folder of its own, that ends with whoever started it.

use super::Servers;
use super::certificate;
use crate::error::tail;
use crate::rundir::RunDir;
use crate::{host, leash};
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// In which a server that is to run answers, on a machine that does much else.
const START: Duration = Duration::from_secs(60);

/// A folder that is in a server's data from the beginning: to an S3 server it is a bucket.
const FOLDER: &str = "checkpoints";

/// A process that listens. Dropping it kills it and removes its folder.
#[derive(Debug)]
struct Server {
    child: Child,
    address: SocketAddr,
    dir: RunDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts what `command` makes of an address and a folder. Somebody else may take the port before the
    /// server does; then another one is tried.
    fn start(
        servers: &Servers,
        name: &str,
        disk_mib: Option<u32>,
        command: impl Fn(SocketAddr, &Path) -> Result<Command>,
    ) -> Result<Self> {
        let mut tries = 0;
        loop {
            tries += 1;
            let dir = RunDir::new(servers.cache.root(), name)?;
            let data = dir.path().join("data");
            fs::create_dir(&data)?;
            fs::create_dir(data.join(FOLDER))?;
            let address = free_address()?;
            let log = File::create(dir.path().join("log"))?;
            let mut command = on_disk(&command(address, &data)?, &data, disk_mib);
            command
                .stdin(Stdio::null())
                .stdout(log.try_clone()?)
                .stderr(log);
            let child = leash::spawn(command)?;
            let mut server = Self {
                child,
                address,
                dir,
            };
            match server.wait() {
                Ok(()) => return Ok(server),
                Err(error) if tries == 3 => return Err(error),
                Err(_) => {}
            }
        }
    }

    fn wait(&mut self) -> Result<()> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                bail!("The server ended with {status}; {}", self.log());
            }
            if TcpStream::connect_timeout(&self.address, Duration::from_secs(1)).is_ok() {
                return Ok(());
            }
            if begun.elapsed() > START {
                bail!(
                    "The server does not listen on {}; {}",
                    self.address,
                    self.log()
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn log(&self) -> String {
        let log = fs::read(self.dir.path().join("log")).unwrap_or_default();
        format!("its output: {}", tail(&String::from_utf8_lossy(&log), 20))
    }

    fn certificate(&self) -> PathBuf {
        certificate::file(self.dir.path())
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }
}

fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("No port is free")?;
    Ok(listener.local_addr()?)
}

/// With a file system of this size over `data`, which only the command sees.
fn on_disk(command: &Command, data: &Path, disk_mib: Option<u32>) -> Command {
    let mut outer = match disk_mib {
        None => leash::leashed(command.get_program()),
        Some(mebibytes) => {
            let mut outer = leash::leashed("unshare");
            if !host::is_root() {
                outer.args(["--user", "--map-root-user"]);
            }
            outer.args(["--mount", "--", "/bin/sh", "-ec"]);
            outer.arg(format!(
                "mount -t tmpfs -o size={mebibytes}m tmpfs \"$0\"; mkdir \"$0/{FOLDER}\"; exec \"$@\""
            ));
            outer.arg(data).arg(command.get_program());
            outer
        }
    };
    outer.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    outer
}

/// A running versitygw over a folder.
#[derive(Debug)]
pub struct S3Server {
    server: Server,
    access_key: String,
    secret_key: String,
    secure: bool,
}

impl Servers {
    /// Starts an S3 server. `disk_mib`: over a file system of this size.
    ///
    /// # Errors
    /// When its program cannot be had, or does not run.
    pub fn start_s3(&self, disk_mib: Option<u32>) -> Result<S3Server> {
        self.start_any_s3(disk_mib, false)
    }

    /// Starts an S3 server with TLS and a certificate of its own.
    ///
    /// # Errors
    /// Those of [`Servers::start_s3`]; when there is no openssl.
    pub fn start_secure_s3(&self) -> Result<S3Server> {
        self.start_any_s3(None, true)
    }

    fn start_any_s3(&self, disk_mib: Option<u32>, secure: bool) -> Result<S3Server> {
        let program = self.s3_program()?;
        let (access_key, secret_key) = ("rocferry".to_owned(), random_word()?);
        let server = Server::start(self, "s3", disk_mib, |address, data| {
            let mut command = Command::new(&program);
            command
                .env("ROOT_ACCESS_KEY", &access_key)
                .env("ROOT_SECRET_KEY", &secret_key);
            command.args(["--quiet", "--keep-alive", "--port"]);
            command.arg(address.to_string());
            if secure {
                let made = certificate::make(data.parent().unwrap_or(data))?;
                command.arg("--cert").arg(made.certificate);
                command.arg("--key").arg(made.key);
            }
            command.arg("posix").arg(data);
            Ok(command)
        })?;
        Ok(S3Server {
            server,
            access_key,
            secret_key,
            secure,
        })
    }

    /// Starts a registry.
    ///
    /// # Errors
    /// When its program cannot be had, or does not run.
    pub fn start_registry(&self, options: RegistryOptions) -> Result<Registry> {
        let program = self.registry_program()?;
        let server = Server::start(self, "registry", options.disk_mib, |address, data| {
            let config = data.with_file_name("config.yml");
            fs::write(&config, registry_config(address, data, options)?)?;
            let mut command = Command::new(&program);
            command.arg("serve").arg(config);
            Ok(command)
        })?;
        Ok(Registry { server })
    }
}

impl S3Server {
    /// `http://127.0.0.1:PORT`, or `https://…`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        format!("{scheme}://{}", self.server.address)
    }

    /// The certificate of one with TLS.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.server.certificate()
    }

    /// The key with all rights.
    #[must_use]
    pub fn access_key(&self) -> &str {
        &self.access_key
    }

    /// Its secret.
    #[must_use]
    pub fn secret_key(&self) -> &str {
        &self.secret_key
    }

    /// Its process, for measuring what it takes.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.server.child.id()
    }

    /// The bucket that it has from the beginning.
    #[must_use]
    pub const fn bucket() -> &'static str {
        FOLDER
    }

    /// Where a bucket's objects lie as files: to it any folder is one. Not with a small disk, which only the
    /// server sees.
    #[must_use]
    pub fn bucket_dir(&self, name: &str) -> PathBuf {
        self.server.data().join(name)
    }
}

/// How a registry is to be.
#[derive(Debug, Clone, Copy, Default)]
pub struct RegistryOptions {
    /// Over a file system of this size.
    pub disk_mib: Option<u32>,
    /// It wants [`Registry::USER`] and [`Registry::PASSWORD`].
    pub password: bool,
    /// It has TLS and a certificate of its own.
    pub secure: bool,
    /// It deletes nothing, as docker-registry does unless told otherwise.
    pub keep_all: bool,
}

/// A running docker-registry.
#[derive(Debug)]
pub struct Registry {
    server: Server,
}

impl Registry {
    /// Who may use a registry with a password.
    pub const USER: &str = "rocferry";
    /// The password.
    pub const PASSWORD: &str = "only for tests";
    /// The same as docker-registry wants it: bcrypt.
    const HASH: &str = "$2a$05$vIZQaZa936mPVvAyIP6Fr.g.KA0yacFn7E1jfkajRu7YyAISCawBi";

    /// `127.0.0.1:PORT`.
    #[must_use]
    pub fn host(&self) -> String {
        self.server.address.to_string()
    }

    /// The certificate of one with TLS.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.server.certificate()
    }

    /// Where it keeps things. Not with a small disk, which only the registry sees.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        self.server.data()
    }
}

fn registry_config(address: SocketAddr, data: &Path, options: RegistryOptions) -> Result<String> {
    let mut tls = String::new();
    if options.secure {
        let made = certificate::make(data.parent().unwrap_or(data))?;
        let (certificate, key) = (made.certificate, made.key);
        tls = format!(", tls: {{certificate: {certificate:?}, key: {key:?}}}");
    }
    let mut config = format!(
        "version: 0.1\nlog: {{level: error, accesslog: {{disabled: true}}}}\n\
         storage:\n  filesystem: {{rootdirectory: {data:?}}}\n  \
         delete: {{enabled: {delete}}}\n\
         http: {{addr: \"{address}\", secret: {secret}{tls}}}\n",
        delete = !options.keep_all,
        secret = random_word()?,
    );
    if options.password {
        let file = data.with_file_name("htpasswd");
        fs::write(&file, format!("{}:{}\n", Registry::USER, Registry::HASH))?;
        config.push_str(&format!(
            "auth: {{htpasswd: {{realm: rocferry, path: {file:?}}}}}\n"
        ));
    }
    Ok(config)
}

/// 32 hexadecimal digits.
fn random_word() -> Result<String> {
    use std::io::Read;
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
