//! Client and registry against a scripted server.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    sync::{Arc, Mutex},
    thread,
};

use change::{Malformed, Problem};
use pipeline::{Reading, Remedy, Schemas};
use serde_json::{Value, json};

use crate::{Client, Login, Registry, RegistrySettings};

/// A server that knows some pages and notes what it is asked.
#[derive(Clone)]
struct Server {
    url: String,
    pages: Arc<Mutex<HashMap<String, (u16, String)>>>,
    asked: Arc<Mutex<Vec<(String, String)>>>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/base", listener.local_addr().unwrap());
        let server = Self { url, pages: Arc::default(), asked: Arc::default() };
        let serving = server.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
                let path = lines.next().unwrap_or_default().split(' ').nth(1).unwrap_or_default().to_owned();
                let mut head = lines.take_while(|line| !line.is_empty());
                let login = head.find_map(|line| line.strip_prefix("authorization: ").map(str::to_owned));
                let unknown = (404, json!({"error_code": 40403, "message": "Schema not found"}).to_string());
                let (status, body) = serving.pages.lock().unwrap().get(&path).cloned().unwrap_or(unknown);
                serving.asked.lock().unwrap().push((path, login.unwrap_or_default()));
                let length = body.len();
                let answer =
                    format!("HTTP/1.1 {status} x\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        server
    }

    fn page(&self, path: &str, status: u16, body: &Value) {
        self.pages.lock().unwrap().insert(format!("/base/{path}"), (status, body.to_string()));
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|(path, _)| path.replace("/base/", "")).collect()
    }

    fn client(&self, login: Login) -> Client {
        Client::new(&RegistrySettings { url: self.url.clone(), login }).unwrap()
    }

    fn registry(&self) -> Registry {
        Registry::new(self.client(Login::Open))
    }
}

fn framed(id: u32, message: &[u8]) -> Vec<u8> {
    [&[0][..], &id.to_be_bytes(), message].concat()
}

fn read(registry: &Registry, framed: &[u8]) -> Result<(String, Reading), Malformed> {
    let mut json = Vec::new();
    let reading = registry.read(framed, "value", &mut json)?;
    Ok((String::from_utf8(json).unwrap(), reading))
}

/// Reads a message whose schema may have to be fetched.
async fn fetched(registry: &Registry, id: u32, message: &[u8]) -> Result<(String, Arc<str>), Malformed> {
    loop {
        match read(registry, &framed(id, message))? {
            (json, Reading::Json(record_schema)) => return Ok((json, record_schema)),
            (_, Reading::Unknown(unknown)) => {
                assert_eq!(unknown, id);
                registry.fetch(id).await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn a_schema_is_asked_for_once_and_has_one_text() {
    let server = Server::start();
    server.page("schemas/ids/70000", 200, &json!({"schema": "\"long\""}));
    server.page("schemas/ids/2", 200, &json!({"schema": r#"{"type":"integer"}"#, "schemaType": "JSON"}));
    let registry = server.registry();
    let (json, first) = fetched(&registry, 70000, &[2]).await.unwrap();
    assert_eq!((json.as_str(), &*first), ("1", r#"{"type":"int64","optional":false}"#));
    let (json, second) = fetched(&registry, 70000, &[4]).await.unwrap();
    assert_eq!(json, "2");
    assert!(Arc::ptr_eq(&first, &second));
    assert_eq!(fetched(&registry, 2, b" 7 ").await.unwrap().0, " 7 ");
    assert_eq!(server.asked(), ["schemas/ids/70000", "schemas/ids/2"]);
}

#[tokio::test]
async fn a_login_is_sent_and_never_shown() {
    let server = Server::start();
    server.page("subjects/a%2Fb%20c-value/versions/latest", 200, &json!({"id": 7, "version": 3, "schema": "\"int\""}));
    let basic = Login::Basic { username: "user".into(), password: "SECRET".into() };
    let token = Login::Token("SECRET".into());
    for (login, header) in [(Login::Open, ""), (basic, "Basic dXNlcjpTRUNSRVQ="), (token, "Bearer SECRET")] {
        let client = server.client(login.clone());
        let latest = client.latest("a/b c-value").await.unwrap().unwrap();
        assert_eq!((latest.id, latest.version, latest.kind.as_str()), (Some(7), Some(3), "AVRO"));
        assert_eq!(server.asked.lock().unwrap().pop().unwrap().1, header);
        let settings = RegistrySettings { url: server.url.clone(), login };
        let shown = format!("{settings:?} {:?}", Registry::new(client));
        assert!(!shown.contains("SECRET") && !shown.contains("dXNl"), "{shown}");
    }
}

#[tokio::test]
async fn each_failure_has_its_remedy_and_names_the_setting() {
    let server = Server::start();
    let client = server.client(Login::Basic { username: "user".into(), password: "SECRET".into() });
    let cases = [
        (503, json!({}), Remedy::Retry, "HTTP 503"),
        (429, json!({}), Remedy::Retry, "HTTP 429"),
        (401, json!({"error_code": 40101}), Remedy::Halt, "check username and password, or token"),
        (403, json!({}), Remedy::Halt, "it does not let in (HTTP 403)"),
        (404, json!({"error_code": 404}), Remedy::Halt, "for Apicurio it ends with /apis/ccompat/v7"),
        (404, json!("no page"), Remedy::Halt, "it has no such page (HTTP 404)"),
        (200, json!("a web page"), Remedy::Halt, "its answer is none of a registry"),
        (422, json!({}), Remedy::Halt, "HTTP 422"),
    ];
    for (status, body, remedy, part) in cases {
        server.page("schemas/ids/1", status, &body);
        let fault = client.schema(1).await.unwrap_err();
        assert!(fault.remedy == remedy && fault.message.contains(part), "{status}: {fault}");
        assert!(!fault.message.contains("SECRET") && fault.message.contains(&server.url), "{fault}");
    }
    assert_eq!(client.schema(2).await, Ok(None));
    let gone = Client::new(&RegistrySettings { url: "http://127.0.0.1:1".into(), login: Login::Open }).unwrap();
    let fault = gone.schema(1).await.unwrap_err();
    assert!(fault.remedy == Remedy::Retry && fault.message.contains("127.0.0.1:1/: Connection refused"), "{fault}");
    for (url, part) in [
        ("localhost:8081", "write http://... or https://..."),
        ("", "write http://... or https://..."),
        ("http://user:SECRET@localhost", "write username and password beside it"),
        ("http://localhost?token=SECRET", "leave out what begins with ? or #"),
    ] {
        let fault = Client::new(&RegistrySettings { url: url.into(), login: Login::Open }).unwrap_err();
        assert!(fault.message.contains(part) && !fault.message.contains("SECRET"), "{fault}");
    }
}

#[tokio::test]
async fn where_one_address_is_away_another_is_asked_and_asked_first_from_then_on() {
    let (first, second) = (Server::start(), Server::start());
    first.page("schemas/ids/1", 500, &json!({}));
    second.page("schemas/ids/1", 200, &json!({"schema": "\"int\""}));
    let url = format!("http://127.0.0.1:1, {}, {}", first.url, second.url);
    let client = Client::new(&RegistrySettings { url, login: Login::Open }).unwrap();
    assert!(client.schema(1).await.unwrap().is_some());
    assert!(client.schema(1).await.unwrap().is_some());
    assert_eq!((first.asked().len(), second.asked().len()), (1, 2));
}

#[tokio::test]
async fn a_schema_that_is_not_known_or_cannot_be_used_refuses_its_records_by_name() {
    let server = Server::start();
    server.page("schemas/ids/3", 200, &json!({"schema": "message M {}", "schemaType": "PROTOBUF"}));
    server.page("schemas/ids/4", 200, &json!({"schema": "[\"int\",\"long\"]"}));
    let record = json!({"type": "record", "name": "r", "fields": [{"name": "amount", "type": "int"}]}).to_string();
    server.page("schemas/ids/5", 200, &json!({"schema": record}));
    let registry = server.registry();
    let cases = [
        (9, "the value has schema 9 of the registry: the registry does not know it"),
        (3, "the value has schema 3 of the registry: it is of the kind PROTOBUF; AVRO and JSON can be read"),
        (4, "the value has schema 4 of the registry: a union has more than one type beside null"),
        (
            5,
            "column `amount`: the value has schema 5 of the registry: it is not followed: the bytes end before the record \
             does",
        ),
    ];
    for (id, why) in cases {
        assert_eq!(fetched(&registry, id, &[]).await.unwrap_err().to_string(), why);
    }
    assert_eq!(server.asked().iter().filter(|path| *path == "schemas/ids/9").count(), 3);
    let eight = fetched(&registry, 0, &[0, 0, 0, 7, 2]).await.unwrap_err().to_string();
    assert!(eight.contains("set apicurio.registry.as-confluent to true"), "{eight}");
    for cut in 1..5 {
        let refused = read(&registry, &framed(5, &[])[..cut]).unwrap_err();
        assert_eq!(refused.problem, Problem::Framed("value"));
    }
}

#[tokio::test]
async fn schemas_that_a_schema_names_are_fetched_with_those_that_they_name() {
    let server = Server::start();
    let reference = |name: &str| json!({"name": name, "subject": name, "version": 2});
    let fixed = json!({"type": "fixed", "name": "F", "size": 1}).to_string();
    let inner = json!({"type": "record", "name": "I", "fields": [{"name": "f", "type": "F"}]}).to_string();
    let outer =
        json!({"type": "record", "name": "O", "fields": [{"name": "i", "type": "I"}, {"name": "f", "type": "F"}]});
    server.page("subjects/F/versions/2", 200, &json!({"schema": fixed}));
    server.page("subjects/I/versions/2", 200, &json!({"schema": inner, "references": [reference("F")]}));
    let references = [reference("F"), reference("I")];
    server.page("schemas/ids/1", 200, &json!({"schema": outer.to_string(), "references": references}));
    server.page("schemas/ids/2", 200, &json!({"schema": outer.to_string(), "references": [reference("X")]}));
    let registry = server.registry();
    assert_eq!(fetched(&registry, 1, &[1, 2]).await.unwrap().0, r#"{"i":{"f":"AQ=="},"f":"Ag=="}"#);
    let refused = fetched(&registry, 2, &[]).await.unwrap_err().to_string();
    assert!(refused.contains("it names version 2 of subject `X`, which the registry does not know"), "{refused}");
}
