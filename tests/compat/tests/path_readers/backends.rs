//! The five backends: how each is started, and what it says about a request.

use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e::gateway::Received;
use e2e::raw::{self, Reply, Request};
use e2e::runner::runtime;
use harness::ports::{free, loopback};
use harness::process::Process;
use serde_json::Value;
use tempfile::TempDir;

use super::{Route, beside, installed};

/// A busy machine may need long to start a Java program.
const READY: Duration = Duration::from_secs(120);

/// How a backend is installed below [`installed`], and what the page calls it.
pub(crate) const BACKENDS: [(&str, &str); 5] = [
    ("fastapi", "FastAPI"),
    ("express", "Express"),
    ("spring", "Spring Boot"),
    ("servemux", "Go ServeMux"),
    ("nginx", "nginx"),
];

/// A backend that runs.
pub(crate) struct Backend {
    pub(crate) name: &'static str,
    address: SocketAddr,
    process: Process,
    _directory: TempDir,
}

/// What a backend made of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// It chose this route, and read these parameters.
    Route { name: String, values: BTreeMap<String, String> },
    /// It answered with this status and chose none; 0 if it closed the connection.
    Status(u16),
}

/// Starts all that are installed, and says loudly which are not.
pub(crate) fn spawn(routes: &[Route]) -> Result<Vec<Backend>> {
    let mut started = Vec::new();
    for (folder, name) in BACKENDS {
        let files = installed().join(folder);
        if !files.is_dir() {
            eprintln!(
                "SKIPPED: {name} is not installed, so nothing is known about its reading of paths. `crates/xtask/scripts/tools.sh path-readers` \
                 installs it; elsewhere set EDGE_PATH_READERS."
            );
            continue;
        }
        let port = free()?;
        let directory = TempDir::new()?;
        let mut command = command(folder, &files, port, directory.path(), routes)?;
        command.current_dir(directory.path());
        let process = Process::spawn(name, &mut command, &directory.path().join("log"))?;
        started.push(Backend { name, address: loopback(port), process, _directory: directory });
    }
    anyhow::ensure!(!started.is_empty(), "no backend is installed: run `crates/xtask/scripts/tools.sh path-readers`");
    Ok(started)
}

/// Waits for all of them.
pub(crate) fn ready(mut backends: Vec<Backend>) -> Result<Vec<Backend>> {
    for backend in &mut backends {
        let address = backend.address;
        runtime()?.block_on(backend.process.ready(READY, async || {
            TcpStream::connect(address).map(drop).with_context(|| format!("{address} does not listen"))
        }))?;
    }
    Ok(backends)
}

fn command(folder: &str, files: &Path, port: u16, directory: &Path, routes: &[Route]) -> Result<Command> {
    let (list, port_text) = (beside("routes.json")?, port.to_string());
    let with_arguments = |mut command: Command| {
        command.arg(&list).arg(&port_text);
        command
    };
    Ok(match folder {
        "fastapi" => {
            let mut command = Command::new("python3");
            command.env("PYTHONPATH", files.join("packages")).env("PYTHONDONTWRITEBYTECODE", "1");
            command.arg(beside("servers/fastapi_app.py")?);
            with_arguments(command)
        }
        "express" => {
            let mut command = Command::new("node");
            command.env("NODE_PATH", files.join("node_modules")).arg(beside("servers/express.js")?);
            with_arguments(command)
        }
        "spring" => {
            let mut command = Command::new("java");
            let path = format!("{}:{}", files.join("classes").display(), files.join("jars/*").display());
            command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", &path, "Spring"]);
            with_arguments(command)
        }
        "servemux" => with_arguments(Command::new(files.join("servemux"))),
        _ => {
            let config = directory.join("nginx.conf");
            fs::write(&config, nginx(directory, port, routes))?;
            let mut command = Command::new(files.join("nginx"));
            command.arg("-e").arg("stderr").arg("-c").arg(config);
            command
        }
    })
}

/// A location for each path: `=` for a literal one, a regular expression for one with parameters.
fn nginx(directory: &Path, port: u16, routes: &[Route]) -> String {
    let mut paths: Vec<&str> = Vec::new();
    for route in routes {
        if !paths.contains(&route.path.as_str()) {
            paths.push(&route.path);
        }
    }
    let location = |path: &&str| {
        let decoded = String::from_utf8_lossy(&super::decoded(path.as_bytes())).into_owned();
        let names: Vec<&str> = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
        let place = if names.is_empty() {
            format!("= \"{decoded}\"")
        } else {
            let segments =
                decoded.split('/').map(|part| match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
                    Some(name) => format!("(?<{name}>[^/]+)"),
                    None => part.replace('.', "[.]"),
                });
            format!("~ \"^{}$\"", segments.collect::<Vec<_>>().join("/"))
        };
        let values: Vec<String> = names.iter().map(|name| format!("\"{name}\":\"${name}\"")).collect();
        let answers = routes.iter().filter(|route| route.path == **path).map(|route| {
            let Route { method, name, .. } = route;
            let values = values.join(",");
            format!(
                "if ($request_method = {method}) {{ return 200 '{{\"route\":\"{name}\",\"values\":{{{values}}}}}'; }}"
            )
        });
        format!("location {place} {{ {} return 405; }}\n", answers.collect::<Vec<_>>().join(" "))
    };
    let locations: String = paths.iter().map(location).collect();
    let place = directory.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|name| format!("{name}_temp_path {place}/{name};\n"))
        .collect();
    format!(
        "daemon off; master_process off; pid {place}/pid; events {{}}\nhttp {{\naccess_log off; default_type application/json;\n\
         {temporary}server {{ listen 127.0.0.1:{port};\n{locations}location / {{ return 404; }}\n}}\n}}\n"
    )
}

impl Backend {
    /// What it makes of the request that the upstream got.
    pub(crate) fn ask_again(&self, received: &Received) -> Result<Reading> {
        self.ask(&request(received))
    }

    /// Its answer, as it stands on the wire, to the request that the upstream got.
    pub(crate) fn answer_to(&self, received: &Received) -> Result<Reply> {
        let request = request(received).header("connection", "close");
        raw::exchange(self.address, &request.method, &request.http1())
    }

    /// What it makes of a request.
    pub(crate) fn ask(&self, request: &Request) -> Result<Reading> {
        let request = request.clone().header("connection", "close");
        let Ok(reply) = raw::exchange(self.address, &request.method, &request.http1()) else {
            return Ok(Reading::Status(0));
        };
        if reply.status != 200 {
            return Ok(Reading::Status(reply.status));
        }
        let mut text = String::from_utf8_lossy(&reply.body).into_owned();
        if self.name == "nginx" {
            // It puts a parameter into its answer as it is.
            text = text.replace('\\', "\\\\");
        }
        let answer: Value = serde_json::from_str(&text).with_context(|| format!("{} says {text}", self.name))?;
        let name = answer.get("route").and_then(Value::as_str).context("no route")?.to_owned();
        let values = serde_json::from_value(answer.get("values").context("no values")?.clone())?;
        Ok(Reading::Route { name, values })
    }
}

/// A request as it was received, to be sent again.
fn request(received: &Received) -> Request {
    let mut request = Request::new(&received.method, received.target.clone());
    request.authority = String::from_utf8_lossy(&received.authority).into_owned();
    request.headers.clone_from(&received.headers);
    request.body.clone_from(&received.body);
    request
}
