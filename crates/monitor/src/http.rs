//! The HTTP side: the page, `/status`, `/metrics`, and the probes.

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::{Request, State},
    http::{
        HeaderValue, StatusCode,
        header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS},
    },
    middleware::{self, Next},
    response::{Html, IntoResponse, Response},
    routing::get,
};
use tokio::net::TcpListener;

use crate::{Monitor, Token, metrics, status::Status};

const PAGE: &str = include_str!("page.html");
/// The page brings everything along, and asks nobody but this server.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What is served, and to whom.
#[derive(Debug, Clone)]
pub struct Site {
    /// Whose picture it is.
    pub monitor: Monitor,
    /// What a request has to bring along, for all but the probes.
    pub token: Option<Token>,
    /// The loop may wait for a store for so long; after that the process is no longer held to be alive.
    pub patience: Duration,
}

/// Serves until the process ends.
///
/// # Errors
/// The listener's.
pub async fn serve(listener: TcpListener, site: Site) -> std::io::Result<()> {
    axum::serve(listener, router(site)).await
}

fn router(site: Site) -> Router {
    let site = Arc::new(site);
    let guarded = Router::new()
        .route("/", get(async || Html(PAGE)))
        .route("/status", get(status))
        .route("/metrics", get(scrape))
        .layer(middleware::from_fn_with_state(Arc::clone(&site), access));
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .merge(guarded)
        .layer(middleware::map_response(async |mut response: Response| {
            let headers = response.headers_mut();
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
            headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            response
        }))
        .with_state(site)
}

async fn access(State(site): State<Arc<Site>>, request: Request, next: Next) -> Response {
    match &site.token {
        Some(token) if !token.is_in(request.headers()) => {
            let challenge = [(WWW_AUTHENTICATE, "Basic realm=\"highwater\", charset=\"UTF-8\"")];
            (StatusCode::UNAUTHORIZED, challenge, "the token is missing or wrong\n").into_response()
        }
        _ => next.run(request).await,
    }
}

async fn status(State(site): State<Arc<Site>>) -> Json<Status> {
    Json(site.monitor.status())
}

async fn scrape(State(site): State<Arc<Site>>) -> Response {
    match metrics::scrape(&site.monitor) {
        Ok(text) => ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn healthz(State(site): State<Arc<Site>>) -> (StatusCode, &'static str) {
    if site.monitor.is_alive(site.patience) {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "the loop has not come round for too long\n")
    }
}

async fn readyz(State(site): State<Arc<Site>>) -> (StatusCode, &'static str) {
    if site.monitor.is_ready() {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not running, or a table has halted\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Phase;

    async fn site(token: Option<&str>) -> (Monitor, String) {
        let monitor = Monitor::of_process("highwater", 1);
        let token = token.map(|token| Token::new(token).unwrap());
        let site = Site { monitor: monitor.clone(), token, patience: Duration::from_mins(1) };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(serve(listener, site));
        (monitor, address)
    }

    async fn get(url: String, token: Option<&str>) -> (u16, String, reqwest::header::HeaderMap) {
        let mut request = reqwest::Client::new().get(url);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        (status, response.text().await.unwrap(), headers)
    }

    #[tokio::test]
    async fn all_but_the_probes_wants_the_token() {
        let (monitor, address) = site(Some("s3cret")).await;
        for path in ["/", "/status", "/metrics"] {
            let (code, _, headers) = get(format!("{address}{path}"), None).await;
            assert_eq!((code, headers.contains_key("www-authenticate")), (401, true), "{path}");
            assert_eq!(get(format!("{address}{path}"), Some("wrong")).await.0, 401, "{path}");
            let (code, body, headers) = get(format!("{address}{path}"), Some("s3cret")).await;
            assert_eq!((code, body.is_empty()), (200, false), "{path}");
            assert!(headers["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'"));
        }
        assert_eq!(get(format!("{address}/healthz"), None).await.0, 200);
        assert_eq!(get(format!("{address}/readyz"), None).await.0, 503);
        monitor.is_now(Phase::Running);
        assert_eq!(get(format!("{address}/readyz"), None).await.0, 200);
        assert_eq!(get(format!("{address}/nothing"), Some("s3cret")).await.0, 404);
    }

    #[tokio::test]
    async fn a_status_is_read_back_as_it_was_written() {
        let (monitor, address) = site(None).await;
        monitor.table("orders", "shop.public.orders", "lake/orders");
        monitor.note("WARN", Some("orders".into()), "will try again: the store is away".into());
        let read: Status = serde_json::from_str(&get(format!("{address}/status"), None).await.1).unwrap();
        assert_eq!(read, Status { at: read.at, ..monitor.status() });
        assert_eq!((read.tables[0].name.as_str(), read.recent.len()), ("orders", 1));
    }
}
