"""Sends and reads events with Python's cloudevents; test/interop/peer.ts says what comes in and goes out."""

import base64
import json
import sys
from datetime import datetime
from http.client import HTTPConnection
from urllib.parse import urlsplit

from cloudevents.core.bindings import http, kafka
from cloudevents.core.v1.event import CloudEvent

TIMEOUT_SECONDS = 20


def to_event(given):
    attributes = dict(given["attributes"])
    for name in {"time", "instant"} & attributes.keys():
        attributes[name] = datetime.fromisoformat(attributes[name].replace("Z", "+00:00"))
    data = given["data"]
    if data is not None:
        kind, value = next(iter(data.items()))
        data = base64.b64decode(value) if kind == "base64" else value
    return CloudEvent(attributes=attributes, data=data)


def post(message, request):
    # urllib would make up a content-type.
    call = HTTPConnection(urlsplit(request["baseUrl"]).netloc, timeout=TIMEOUT_SECONDS)
    headers = {**message.headers, "authorization": f"Bearer {request['token']}"}
    call.request("POST", "/v1/events", body=message.body, headers=headers)
    response = call.getresponse()
    return {"status": response.status, "body": response.read().decode()}


def to_record(message):
    key = message.key.encode() if isinstance(message.key, str) else message.key
    headers = [[name, encode(value)] for name, value in message.headers.items()]
    return {"record": {"headers": headers, "key": encode(key), "value": encode(message.value)}}


def send(sending, request):
    event = to_event(sending["events"][0])
    by_mode = {
        "HTTP binary": lambda: post(http.to_binary_event(event), request),
        "HTTP structured JSON": lambda: post(http.to_structured_event(event), request),
        "Kafka binary": lambda: to_record(kafka.to_binary_event(event)),
        "Kafka structured JSON": lambda: to_record(kafka.to_structured_event(event)),
    }
    return by_mode[sending["mode"]]()


def read(message):
    body = decode(message["body"])
    if message["binding"] == "http":
        headers = {name: decode(value).decode() for name, value in message["headers"]}
        event = http.from_http_event(http.HTTPMessage(headers=headers, body=body))
    else:
        headers = {name: decode(value) for name, value in message["headers"]}
        record = kafka.KafkaMessage(headers=headers, key=decode(message["key"]), value=body)
        event = kafka.from_kafka_event(record)
    return {"events": [seen(event)]}


def seen(event):
    attributes = {name: to_text(value) for name, value in event.get_attributes().items()}
    data = event.get_data()
    if isinstance(data, bytes):
        data = {"base64": encode(data)}
    elif isinstance(data, str):
        data = {"text": data}
    elif data is not None:
        data = {"json": data}
    return {"attributes": attributes, "data": data}


def to_text(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return str(value)


def encode(value):
    return None if value is None else base64.b64encode(value).decode()


def decode(text):
    return None if text is None else base64.b64decode(text)


def tried(work, *args):
    try:
        return work(*args)
    except Exception as error:  # The SDK's own refusals have no class in common.
        return {"error": f"{type(error).__name__}: {error}"}


request = json.load(sys.stdin)
answer = {
    "sent": [tried(send, sending, request) for sending in request["send"]],
    "read": [tried(read, message) for message in request["read"]],
}
json.dump(answer, sys.stdout)
