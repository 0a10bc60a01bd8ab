//! [`connect`]: a connection to the source.

use tokio_postgres::Client;

use crate::{PostgresError, PostgresSettings, tls};

/// Connects. The connection lives on a task of its own until the client is dropped; must be called in a tokio runtime.
///
/// # Errors
/// [`PostgresError`] where no server answers, TLS does not come about, or the server refuses.
pub async fn connect(settings: &PostgresSettings) -> Result<Client, PostgresError> {
    let tls =
        tls::connector(&settings.trust).map_err(|cause| PostgresError::Tls { address: settings.address(), cause })?;
    let connected = settings.config.connect(tls).await;
    let (client, connection) = connected.map_err(|error| PostgresError::connecting(&error, settings))?;
    // how the connection ends comes out at the client's next call
    drop(tokio::spawn(async move { connection.await.ok() }));
    Ok(client)
}
