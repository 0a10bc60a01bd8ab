//! How it is doing: status, metrics, the status page.
