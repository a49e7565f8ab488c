//! The gateway from a configuration that `edge-idempotency render envoy` makes, in the place of `deploy/demo/envoy.yaml`.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::envoy::{Envoy, EnvoyOptions, configuration};
use crate::tokens::ISSUER;
use crate::tools::Filter;

/// Lets the command `program` make the configuration for `options`, and starts Envoy with it. Tokens are required.
pub async fn start(program: &Path, options: EnvoyOptions) -> Result<Envoy> {
    let directory = options.run_dir.clone();
    let (policy, keys) = (directory.join("policy.json"), directory.join("jwks.json"));
    fs::write(&policy, &options.policy)?;
    fs::write(&keys, &options.jwks)?;
    let mut upstreams = vec![("backend", options.backend)];
    if let Some(stores) = &options.stores {
        upstreams.extend([("unkey", stores.unkey), ("openbao", stores.openbao)]);
    }
    let mut command = Command::new(program);
    command.args(["render", "envoy", "--policy"]).arg(&policy).arg("--module").arg(options.filter.path());
    if let Filter::DynamicModule(_) = options.filter {
        command.arg("--dynamic-module");
    }
    for (name, address) in upstreams {
        command.args(["--upstream", &format!("{name}=http://{address}")]);
    }
    command.args(["--jwt-issuer", ISSUER, "--jwt-keys"]).arg(&keys);
    command.args(["--listen", &format!("127.0.0.1:{}", options.gateway_port)]);
    command.args(["--admin", &format!("127.0.0.1:{}", options.admin_port)]);
    command.arg("--access-log").arg(directory.join("access.log")).arg("--credentials").arg(&directory);
    let output = command.output().with_context(|| format!("cannot run {}", program.display()))?;
    ensure!(output.status.success(), "render: {}", String::from_utf8_lossy(&output.stderr));
    let file = configuration(&directory);
    fs::write(&file, output.stdout).with_context(|| format!("cannot write {}", file.display()))?;
    Envoy::start_with(options, &file).await
}
