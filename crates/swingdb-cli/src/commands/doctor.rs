//! `swingdb doctor`: what on this system costs speed or capacity.

use crate::args::ListArgs;
use crate::failure::Outcome;
use crate::home::Home;
use serde_json::json;
use std::io::{BufWriter, Write};
use swingdb::Finding;

pub fn run(home: &Home, args: &ListArgs) -> Outcome {
    let findings = home.doctor();
    let mut sink = BufWriter::new(std::io::stdout());
    if args.json {
        let value = |f: &Finding| json!({"what": f.what, "cost": f.cost, "mend": f.mend});
        let values: Vec<_> = findings.iter().map(value).collect();
        serde_json::to_writer_pretty(&mut sink, &values).map_err(std::io::Error::from)?;
        writeln!(sink)?;
    } else {
        for finding in &findings {
            write!(sink, "{}", text(finding))?;
        }
        match findings.len() {
            0 => writeln!(sink, "nothing to mend")?,
            1 => writeln!(sink, "1 thing to mend")?,
            n => writeln!(sink, "{n} things to mend")?,
        }
    }
    sink.flush()?;
    Ok(())
}

fn text(finding: &Finding) -> String {
    let Finding { what, cost, mend, .. } = finding;
    format!("{what}\n    {cost}\n    $ {mend}\n")
}
