//! SIGTERM and Ctrl-C.

use tokio::signal::unix::{SignalKind, signal};

/// Ends at the first SIGTERM or Ctrl-C. A second one then ends the process at once.
pub(crate) async fn requested() {
    wait().await;
    tracing::info!("stopping; once more stops at once");
    tokio::spawn(async {
        wait().await;
        std::process::exit(130);
    });
}

async fn wait() {
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        // without handlers the signals end the process, which loses nothing
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
