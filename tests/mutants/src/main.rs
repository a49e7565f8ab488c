//! Says which faults no test notices. CONTRIBUTING.md tells how it is used.

mod compile;
mod copy;
mod engine;
mod find;
mod planted;
mod project;
mod values;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Which faults no test notices. Without a command it tries both kinds.
#[derive(Parser)]
struct MutantsArguments {
    #[command(subcommand)]
    command: Option<MutantsCommand>,
}

#[derive(Subcommand)]
enum MutantsCommand {
    /// Mutants of the engine, all in one program
    Engine {
        /// Only files whose names begin so, below the engine's `src/`: `key/` or `exchange/paths.rs`
        #[arg(default_value = "")]
        file: String,
        /// How many processes run at a time
        #[arg(long, default_value_t = processors())]
        jobs: usize,
        /// Print every mutant, and what noticed it
        #[arg(long)]
        verbose: bool,
        /// Print the mutants, and run nothing
        #[arg(long)]
        list: bool,
    },
    /// Faults that are planted into the other parts, one after the other
    Planted {
        /// Only those with this in part, file and description, as in `bridge/held.go: One sender`
        #[arg(default_value = "")]
        only: String,
        /// The name of the copy below `target/mutants/`: two runs side by side need two
        #[arg(long, default_value = "planted")]
        copy: String,
    },
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn main() -> ExitCode {
    match run(MutantsArguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: MutantsArguments) -> anyhow::Result<bool> {
    let project = project::Checkout::find()?;
    match arguments.command {
        Some(MutantsCommand::Engine { file, list: true, .. }) => {
            for mutant in compile::Sources::read(&project)?.mutants().filter(|mutant| mutant.file.starts_with(&file)) {
                println!("{}:{}: {}", mutant.file, mutant.line, mutant.change);
            }
            Ok(true)
        }
        Some(MutantsCommand::Engine { file, jobs, verbose, list: false }) => {
            engine::run(&project, &engine::EngineOptions { file, jobs, verbose })
        }
        Some(MutantsCommand::Planted { only, copy }) => planted::run(&project, &only, &copy),
        None => {
            let options = engine::EngineOptions { file: String::new(), jobs: processors(), verbose: false };
            let engine = engine::run(&project, &options)?;
            Ok(planted::run(&project, "", "planted")? && engine)
        }
    }
}
