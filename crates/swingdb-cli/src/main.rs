//! `swingdb`: the shell and the commands.
//!
//! A thin door to the library: arguments in, text out. What is here and nowhere else is the editing
//! of statements, the shape of the output, and the messages.
//!
//! Starting is fast, since a shell script may start this program once a query: nothing is opened,
//! listed or started before a command needs it.
//!
//! Exit status: 0 success, 1 a command or statement failed (the reason is on the standard error),
//! 2 wrong usage, 130 ended by Ctrl-C.

#![deny(unsafe_code)]

mod args;
mod commands;
mod failure;
mod home;
mod interrupt;
mod listing;
mod output;
mod progress;
mod runner;
mod shell;
mod ui;
mod units;

use args::{Cli, Command};
use clap::Parser;
use failure::{Failure, Outcome};
use home::Home;
use std::io::Write;
use swingdb::allocator::{JEMALLOC_OPTIONS, at_first_query};
use tikv_jemalloc_ctl::background_thread;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

// Nothing but a name that the allocator looks for.
#[allow(unsafe_code)]
#[unsafe(export_name = "_rjem_malloc_conf")]
static ALLOCATOR_OPTIONS: Option<&[u8; JEMALLOC_OPTIONS.len()]> = Some(JEMALLOC_OPTIONS);

fn main() {
    let cli = Cli::parse();
    // Without the thread, memory that queries leave goes back to the system later.
    at_first_query(|| _ = background_thread::write(true));
    let outcome = run(cli).and_then(|()| Ok(std::io::stdout().flush()?));
    let status = match outcome {
        Ok(()) => 0,
        Err(failure) => failure.report(),
    };
    // An interrupted query may compute on for a moment: the exit handlers would race with it.
    swingdb::exit_now(status)
}

fn run(cli: Cli) -> Outcome {
    if cli.store.is_some()
        && cli.shell.cluster.is_none()
        && let Some(why) = cli.has_no_use_of_a_store()
    {
        return Err(Failure::usage(format!("--store: {why}")));
    }
    let store = cli.store.map(|directory| (directory, cli.durability));
    let home = Home::new(cli.home, store);
    let Some(command) = cli.command else {
        return shell::start(&home, &cli.shell);
    };
    if cli.shell.cluster.is_some() {
        return Err(Failure::usage("--cluster: commands are about databases of this machine"));
    }
    if cli.shell.database.is_some() {
        return Err(Failure::usage("a database before a command: give it after the command"));
    }
    match command {
        Command::Shell(args) => shell::start(&home, &args),
        Command::Sql(args) => commands::sql::run(&home, &args),
        Command::Import(args) => commands::import::run(&home, &args),
        Command::Export(args) => commands::export::run(&home, &args),
        Command::Generate(args) => commands::generate::run(&home, &args),
        Command::Checkpoint(args) => commands::checkpoint::run(&home, &args),
        Command::Restore(args) => commands::restore::run(&home, &args),
        Command::Serve(args) => commands::serve::run(&home, &args),
        Command::Node(args) => commands::node::run(&home, &args),
        Command::Ui(args) => commands::ui::run(&home, &args),
        Command::Share(args) => commands::share::run(&home, &args),
        Command::Ls(args) => commands::ls::run(&home, &args),
        Command::Tree(args) => commands::tree::run(&home, &args),
        Command::Drop(args) => commands::drop::run(&home, &args),
        Command::Gc => commands::gc::run(&home),
        Command::Probe(args) => commands::probe::run(&args),
        Command::Doctor(args) => commands::doctor::run(&home, &args),
    }
}
