//! `tidy.csv`: one row per measured round, for R, pandas or a spreadsheet. Quoting follows RFC 4180.

use super::data::{Run, text};

/// The whole file. Numbers stand exactly as in `results.jsonl`; a metric a round lacks is empty.
pub fn csv(run: &Run) -> String {
    let mut header: Vec<String> = ["study", "round", "order", "started"].map(String::from).into();
    header.extend(run.factors.iter().map(|factor| factor.name.clone()));
    header.extend(["valid", "invalid_because"].map(String::from));
    header.extend(run.metrics.iter().cloned());
    let mut out = String::new();
    row(&mut out, &header);
    for round in &run.rounds {
        let mut fields = vec![
            round.study.clone(),
            round.round.to_string(),
            round.order.map(|order| order.to_string()).unwrap_or_default(),
            round.started.clone(),
        ];
        fields
            .extend(run.factors.iter().zip(&round.cell).map(|(factor, level)| factor.levels[*level].clone()));
        fields.extend([round.valid.to_string(), round.reasons.join("; ")]);
        fields.extend(run.metrics.iter().map(|name| round.metrics.get(name).map(text).unwrap_or_default()));
        row(&mut out, &fields);
    }
    out
}

/// RFC 4180 sections 2.1 (CRLF), 2.6 (quote what holds quotes, commas or line breaks) and 2.7 (double the quotes).
fn row(out: &mut String, fields: &[String]) {
    for (index, field) in fields.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        if field.contains(['"', ',', '\r', '\n']) {
            out.push('"');
            out.push_str(&field.replace('"', "\"\""));
            out.push('"');
        } else {
            out.push_str(field);
        }
    }
    out.push_str("\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_only_where_they_must_be() {
        let mut out = String::new();
        row(
            &mut out,
            &["plain text".into(), "a,b".into(), "say \"x\"".into(), "two\nlines".into(), String::new()],
        );
        assert_eq!(out, "plain text,\"a,b\",\"say \"\"x\"\"\",\"two\nlines\",\r\n");
    }
}
