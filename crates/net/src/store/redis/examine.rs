//! [`examine`]: what a server says about itself, for a check before the start.

use std::time::Duration;

use redis::{Pipeline, Value, from_redis_value};

use super::{
    super::{ServerFacts, StoreAddress, StoreError},
    command::ServerError,
    link::Link,
};

/// Time limit for an answer.
const LIMIT: Duration = Duration::from_secs(2);

/// Asks the server at `address`, or the first server of a cluster that answers.
///
/// # Errors
/// No server answers, or it refuses the user.
pub(super) async fn examine(address: &StoreAddress) -> Result<ServerFacts, StoreError> {
    let Some(nodes) = address.cluster() else {
        return ask(Link::new(address, LIMIT).map_err(StoreError::new)?).await;
    };
    let mut failed = StoreError::new(ServerError::NoAnswer);
    for node in nodes {
        match ask(Link::to_node(node, address, LIMIT).map_err(StoreError::new)?).await {
            Ok(facts) => return Ok(facts),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

async fn ask(link: Link) -> Result<ServerFacts, StoreError> {
    link.find().await.map_err(StoreError::new)?;
    let mut commands = Pipeline::new();
    commands.ignore_errors().cmd("PING");
    for section in ["memory", "persistence"] {
        commands.cmd("INFO").arg(section);
    }
    let mut answers = link.send(&commands).await.map_err(StoreError::new)?.into_iter();
    match answers.next() {
        Some(Ok(_)) => {}
        Some(Err(error)) => return Err(StoreError::new(error)),
        None => return Err(StoreError::new(ServerError::AnswerMissing)),
    }
    // A user without the right to ask for this can use the server all the same.
    let said: String =
        answers.flatten().filter_map(|said: Value| from_redis_value::<String>(said).ok()).collect();
    Ok(read_facts(&said))
}

/// Reads the lines of the command `INFO`.
fn read_facts(info: &str) -> ServerFacts {
    let value = |name: &str| {
        info.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':')).map(str::to_owned)
    };
    ServerFacts {
        eviction_policy: value("maxmemory_policy"),
        max_memory: value("maxmemory").and_then(|bytes| bytes.parse().ok()),
        appends: value("aof_enabled").map(|enabled| enabled == "1"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_from_the_lines_of_a_server() {
        let info = "# Memory\r\nused_memory:1\r\nmaxmemory:1048576\r\nmaxmemory_policy:allkeys-lru\r\n\
                    # Persistence\r\naof_enabled:0\r\n";
        let facts = read_facts(info);
        assert_eq!(facts.eviction_policy.as_deref(), Some("allkeys-lru"));
        assert_eq!((facts.max_memory, facts.appends), (Some(1 << 20), Some(false)));
        assert_eq!(read_facts("NOPERM"), ServerFacts::default());
    }
}
