//! `steplatch uninstall`: removes everything that steplatch installed on this computer, and on the remote hosts of
//! its configuration.
//!
//! The command lists everything first. Without `--purge`, content made by the person stays, such as settings, runs and
//! workflows. Files in projects always stay, and so does the program, because its package manager removes it.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use steplatch_host::{RemoteHostConfig, client_on};
use steplatch_protocol::{DaemonPaths, ListTerminalSessions, SessionInfo};

use super::daemon::unit::{self, UnitFile};
use super::setup::{ClientOutcome, Setup};
use super::{daemon, hosts_install};
use crate::clients::UserPaths;
use crate::failure::Failure;
use crate::print::{self, QUIET};
use crate::settings::{self, Settings};
use crate::{daemon_client, page_server};

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Uninstall {
    /// Also remove settings, runs, recordings, the passphrase and your own library of workflows
    #[arg(long)]
    purge: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
    /// Show what would be removed, and remove nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Workflows in projects (.terminal_control_workflows) stay, and so does the program: remove it as you installed it.";

/// Everything to remove.
struct Inventory {
    entries: Vec<ClientOutcome>,
    /// Open local and remote terminals; none without a daemon.
    terminals: Vec<SessionInfo>,
    has_daemon: bool,
    /// Port of the server of the page, if it runs in the background.
    page_port: Option<u16>,
    hosts: Vec<RemoteHostConfig>,
    /// The unit of systemd that `daemon enable` has written.
    unit: Option<PathBuf>,
    /// Directories to remove.
    directories: Vec<PathBuf>,
    /// Directories to keep.
    kept: Vec<PathBuf>,
}

impl Uninstall {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let user_paths = UserPaths::from_environment()?;
        let inventory = self.find(paths, &user_paths).await?;
        let mut document = inventory.document();
        document["dry_run"] = self.dry_run.into();
        if !self.json {
            inventory.print(&user_paths)?;
        }
        if !self.dry_run && !inventory.is_empty() {
            // A program that reads JSON sees no question.
            if !self.yes && (self.json || !confirm()?) {
                return Err(Failure::usage("nothing was removed; confirm with y, or use --yes").with(&document));
            }
            let errors = inventory.remove(paths, &user_paths).await;
            if !errors.is_empty() {
                return Err(Failure::work(errors.join("\n")).with(&document));
            }
        }
        document["success"] = true.into();
        if self.json {
            print::json(&document)?;
        } else if inventory.is_empty() {
            print::line("there is nothing to remove")?;
        } else if self.dry_run {
            print::remark("dry run: nothing was removed");
        } else {
            print::line("removed; restart running clients to apply the change")?;
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn find(&self, paths: &DaemonPaths, user_paths: &UserPaths) -> Result<Inventory, Failure> {
        let settings = Settings::load().map_err(|error| Failure::usage(error.to_string()))?;
        let daemon = daemon_client::running(paths).await.ok();
        let terminals = match &daemon {
            Some(daemon) => daemon.call(ListTerminalSessions {}).await?.sessions,
            None => Vec::new(),
        };
        let exists = |directory: &PathBuf| directory.exists();
        let own_directories: Vec<PathBuf> = own_directories(paths, user_paths).into_iter().filter(exists).collect();
        let (purged, kept) = if self.purge { (own_directories, Vec::new()) } else { (Vec::new(), own_directories) };
        let runtime = Some(paths.runtime().to_owned()).filter(exists);
        let page = if runtime.is_some() { page_server::running(paths).await? } else { None };
        Ok(Inventory {
            entries: Setup::removal(true).outcomes(user_paths, None),
            has_daemon: daemon.is_some(),
            page_port: page.map(|page| page.port),
            terminals,
            unit: match UnitFile::find()? {
                UnitFile::Own(file) => Some(file),
                UnitFile::Missing(_) | UnitFile::Foreign(_) => None,
            },
            hosts: settings.hosts.iter().map(|host| host.config.clone()).collect(),
            directories: runtime.into_iter().chain(purged).collect(),
            kept,
        })
    }
}

impl Inventory {
    fn is_empty(&self) -> bool {
        !self.has_daemon
            && self.page_port.is_none()
            && self.directories.is_empty()
            && self.hosts.is_empty()
            && self.unit.is_none()
            && self.removed_entries().next().is_none()
    }

    /// Removes everything and returns the errors: each part is independent of the others.
    async fn remove(&self, paths: &DaemonPaths, user_paths: &UserPaths) -> Vec<String> {
        let mut errors = Vec::new();
        let entries = Setup::removal(false).outcomes(user_paths, None);
        errors.extend(entries.iter().filter_map(|entry| entry.error(user_paths)));
        errors.extend(entries.iter().filter_map(|entry| entry.remove_blank_file().err()));
        // The service would start the daemon again.
        if let Some(file) = &self.unit
            && let Err(error) = unit::remove(&UnitFile::Own(file.clone()))
        {
            errors.push(error.message().to_owned());
        }
        // The server of the page would, too.
        if self.page_port.is_some()
            && let Err(error) = page_server::stop(paths).await
        {
            errors.push(error.message().to_owned());
        }
        let end_result = daemon::stop_all(paths).await;
        if let Err(error) = &end_result {
            errors.push(format!("{}; its directories stay", error.message()));
        }
        for host in &self.hosts {
            let client = client_on(&paths.hosts(), &host.name);
            if let Err(error) = hosts_install::remove(&host.ssh, client.as_deref()).await {
                errors.push(error.message().to_owned());
            }
        }
        // A daemon that runs would write into them again.
        let removable: &[PathBuf] = if end_result.is_ok() { &self.directories } else { &[] };
        for directory in removable {
            match std::fs::remove_dir_all(directory) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => errors.push(format!("'{}' was not removed: {error}", directory.display())),
            }
        }
        if let Some(base) = paths.runtime_base() {
            // Ignore the error, because another state directory has its runtime directory there.
            let _ = std::fs::remove_dir(base);
        }
        errors
    }

    /// Returns the clients that have an entry.
    fn removed_entries(&self) -> impl Iterator<Item = &ClientOutcome> {
        self.entries.iter().filter(|entry| entry.is_removed())
    }

    /// Returns the number of open terminals on a host.
    fn terminals_on(&self, host: Option<&str>) -> usize {
        self.terminals.iter().filter(|terminal| terminal.host.as_deref() == host).count()
    }

    fn print(&self, user_paths: &UserPaths) -> Result<(), Failure> {
        if !self.is_empty() {
            print::line("Removes:")?;
        }
        for entry in self.removed_entries() {
            print_row(&entry.describe(), &user_paths.display_path(&entry.file))?;
        }
        if let Some(file) = &self.unit {
            print_row("service of systemd", &user_paths.display_path(file))?;
        }
        if self.has_daemon {
            print_row("daemon", &describe_closed_terminals(self.terminals_on(None)))?;
        }
        if let Some(port) = self.page_port {
            print_row("server of the page", &format!("port {port}"))?;
        }
        for host in &self.hosts {
            let terminals = describe_closed_terminals(self.terminals_on(Some(&host.name)));
            print_row(&format!("files on {}", host.name), &format!("{}, {terminals}", host.ssh))?;
        }
        for directory in &self.directories {
            print_row("directory", &user_paths.display_path(directory))?;
        }
        if !self.kept.is_empty() {
            print::line("Keeps, without --purge:")?;
        }
        for directory in &self.kept {
            print_row("directory", &user_paths.display_path(directory))?;
        }
        Ok(())
    }

    fn document(&self) -> Value {
        let entries: Vec<Value> =
            self.removed_entries().map(|entry| json!({"client": entry.client.name, "file": entry.file})).collect();
        let hosts: Vec<&str> = self.hosts.iter().map(|host| host.name.as_str()).collect();
        json!({
            "entries": entries,
            "unit": self.unit,
            "daemon": self.has_daemon,
            "page_port": self.page_port,
            "terminals": self.terminals.iter().map(|terminal| &terminal.session_id).collect::<Vec<_>>(),
            "hosts": hosts,
            "directories": self.directories,
            "kept": self.kept,
        })
    }
}

/// Reports the number of terminals to close.
fn describe_closed_terminals(terminals: usize) -> String {
    match terminals {
        0 => "no open terminals".to_owned(),
        1 => "closes 1 terminal".to_owned(),
        many => format!("closes {many} terminals"),
    }
}

/// Columns of the first part of a row.
const LABEL_COLUMNS: usize = 30;

fn print_row(label: &str, detail: &str) -> Result<(), Failure> {
    Ok(print::line(format!("  {}{QUIET}{}{QUIET:#}", print::padded(label, LABEL_COLUMNS), print::visible(detail)))?)
}

/// Returns the directories with content made by the person: the state, the settings, and the person's own library.
fn own_directories(paths: &DaemonPaths, user_paths: &UserPaths) -> Vec<PathBuf> {
    let settings = settings::file().and_then(|file| file.parent().map(ToOwned::to_owned));
    let data = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|data| data.is_absolute());
    let library = data.unwrap_or_else(|| user_paths.home.join(".local/share")).join("steplatch");
    [Some(paths.state().to_owned()), settings, Some(library)].into_iter().flatten().collect()
}

/// Asks the person at this terminal to confirm.
fn confirm() -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() {
        return Ok(false);
    }
    print::ask("Remove these? [y/N]")?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
