// Sends and reads events with Go's sdk-go; test/interop/peer.ts says what comes in and goes out.
package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	nethttp "net/http"
	"os"
	"time"

	"github.com/IBM/sarama"
	protobuf "github.com/cloudevents/sdk-go/binding/format/protobuf/v2"
	kafka "github.com/cloudevents/sdk-go/protocol/kafka_sarama/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/cloudevents/sdk-go/v2/types"
)

type data struct {
	JSON   json.RawMessage `json:"json,omitempty"`
	Text   *string         `json:"text,omitempty"`
	Base64 *[]byte         `json:"base64,omitempty"`
}

type plainEvent struct {
	Attributes map[string]any `json:"attributes"`
	Data       *data          `json:"data"`
}

type sending struct {
	Mode   string       `json:"mode"`
	Events []plainEvent `json:"events"`
}

type header struct {
	name  string
	value []byte
}

func (h *header) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&h.name, &h.value})
}

func (h header) MarshalJSON() ([]byte, error) { return json.Marshal([]any{h.name, h.value}) }

type message struct {
	Binding string   `json:"binding"`
	Headers []header `json:"headers"`
	Key     []byte   `json:"key"`
	Body    []byte   `json:"body"`
}

type record struct {
	Headers []header `json:"headers"`
	Key     []byte   `json:"key"`
	Value   []byte   `json:"value"`
}

type sent struct {
	Status int     `json:"status,omitempty"`
	Body   string  `json:"body,omitempty"`
	Record *record `json:"record,omitempty"`
	Error  string  `json:"error,omitempty"`
}

type read struct {
	Events []plainEvent `json:"events,omitempty"`
	Error  string       `json:"error,omitempty"`
}

type request struct {
	BaseURL string    `json:"baseUrl"`
	Token   string    `json:"token"`
	Send    []sending `json:"send"`
	Read    []message `json:"read"`
}

func main() {
	var asked request
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		fail(err)
	}
	answer := struct {
		Sent []sent `json:"sent"`
		Read []read `json:"read"`
	}{[]sent{}, []read{}}
	for _, one := range asked.Send {
		result, err := send(one, asked)
		if err != nil {
			result = sent{Error: err.Error()}
		}
		answer.Sent = append(answer.Sent, result)
	}
	for _, one := range asked.Read {
		events, err := readMessage(one)
		if err != nil {
			answer.Read = append(answer.Read, read{Error: err.Error()})
		} else {
			answer.Read = append(answer.Read, read{Events: events})
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func send(one sending, asked request) (sent, error) {
	events := make([]event.Event, len(one.Events))
	for index, given := range one.Events {
		made, err := toEvent(given)
		if err != nil {
			return sent{}, err
		}
		events[index] = made
	}
	ctx := context.Background()
	url := asked.BaseURL + "/v1/events"
	var call *nethttp.Request
	var err error
	switch one.Mode {
	case "HTTP binary":
		call, err = http.NewHTTPRequestFromEvent(binding.WithForceBinary(ctx), url, events[0])
	case "HTTP structured JSON":
		call, err = http.NewHTTPRequestFromEvent(binding.WithForceStructured(ctx), url, events[0])
	case "HTTP structured protobuf":
		call, err = http.NewHTTPRequestFromEvent(inProtobuf(ctx), url, events[0])
	case "HTTP batch JSON":
		call, err = http.NewHTTPRequestFromEvents(ctx, url+":batchCreate", events)
	case "Kafka binary":
		return toRecord(binding.WithForceBinary(ctx), events[0])
	case "Kafka structured JSON":
		return toRecord(binding.WithForceStructured(ctx), events[0])
	case "Kafka structured protobuf":
		return toRecord(inProtobuf(ctx), events[0])
	default:
		err = fmt.Errorf("no such mode: %s", one.Mode)
	}
	if err != nil {
		return sent{}, err
	}
	return post(call, asked.Token)
}

func inProtobuf(ctx context.Context) context.Context {
	return binding.UseFormatForEvent(binding.WithForceStructured(ctx), protobuf.Protobuf)
}

func toEvent(given plainEvent) (event.Event, error) {
	made := event.New()
	for name, value := range given.Attributes {
		text, _ := value.(string)
		switch name {
		case "specversion":
		case "id":
			made.SetID(text)
		case "source":
			made.SetSource(text)
		case "type":
			made.SetType(text)
		case "subject":
			made.SetSubject(text)
		case "dataschema":
			made.SetDataSchema(text)
		case "datacontenttype":
			made.SetDataContentType(text)
		case "time":
			at, err := time.Parse(time.RFC3339Nano, text)
			if err != nil {
				return made, err
			}
			made.SetTime(at)
		default:
			typed, err := toTyped(name, value)
			if err != nil {
				return made, err
			}
			made.SetExtension(name, typed)
		}
	}
	switch content := given.Data; {
	case content == nil:
	case content.Text != nil:
		made.DataEncoded = []byte(*content.Text)
	case content.Base64 != nil:
		made.DataEncoded, made.DataBase64 = *content.Base64, true
	default:
		var value any
		if err := json.Unmarshal(content.JSON, &value); err != nil {
			return made, err
		}
		return made, made.SetData(made.DataContentType(), value)
	}
	return made, nil
}

func toTyped(name string, value any) (any, error) {
	if number, ok := value.(float64); ok {
		return int32(number), nil
	}
	text, _ := value.(string)
	switch name {
	case "bytes":
		return base64.StdEncoding.DecodeString(text)
	case "link":
		return types.ParseURI(text), nil
	case "reference":
		return types.ParseURIRef(text), nil
	case "instant":
		return types.ParseTime(text)
	default:
		return value, nil
	}
}

func post(call *nethttp.Request, token string) (sent, error) {
	call.Header.Set("Authorization", "Bearer "+token)
	client := nethttp.Client{Timeout: 20 * time.Second}
	response, err := client.Do(call)
	if err != nil {
		return sent{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return sent{Status: response.StatusCode, Body: string(body)}, err
}

func toRecord(ctx context.Context, one event.Event) (sent, error) {
	var produced sarama.ProducerMessage
	if err := kafka.WriteProducerMessage(ctx, (*binding.EventMessage)(&one), &produced); err != nil {
		return sent{}, err
	}
	made := record{Headers: []header{}}
	for _, one := range produced.Headers {
		made.Headers = append(made.Headers, header{string(one.Key), one.Value})
	}
	var err, keyErr error
	if produced.Value != nil {
		made.Value, err = produced.Value.Encode()
	}
	if produced.Key != nil {
		made.Key, keyErr = produced.Key.Encode()
	}
	return sent{Record: &made}, errors.Join(err, keyErr)
}

func readMessage(one message) ([]plainEvent, error) {
	if one.Binding == "kafka" {
		headers, contentType := map[string][]byte{}, ""
		for _, each := range one.Headers {
			headers[each.name] = each.value
			if each.name == "content-type" {
				contentType = string(each.value)
			}
		}
		return seen(binding.ToEvent(context.Background(), kafka.NewMessage(one.Body, contentType, headers)))
	}
	call, err := nethttp.NewRequest(nethttp.MethodPost, "http://reader.invalid", bytes.NewReader(one.Body))
	if err != nil {
		return nil, err
	}
	for _, each := range one.Headers {
		call.Header.Add(each.name, string(each.value))
	}
	if !http.IsHTTPBatch(call.Header) {
		return seen(http.NewEventFromHTTPRequest(call))
	}
	batch, err := http.NewEventsFromHTTPRequest(call)
	if err != nil {
		return nil, err
	}
	all := []plainEvent{}
	for index := range batch {
		one, err := seen(&batch[index], nil)
		if err != nil {
			return nil, err
		}
		all = append(all, one...)
	}
	return all, nil
}

func seen(one *event.Event, err error) ([]plainEvent, error) {
	if err != nil {
		return nil, err
	}
	attributes := map[string]any{"specversion": one.SpecVersion()}
	values := map[string]any{
		"id": one.ID(), "source": one.Source(), "type": one.Type(), "subject": one.Subject(),
		"dataschema": one.DataSchema(), "datacontenttype": one.DataContentType(), "time": one.Time(),
	}
	for name, value := range one.Extensions() {
		values[name] = value
	}
	for name, value := range values {
		text, err := types.Format(value)
		if err != nil {
			return nil, err
		}
		if text != "" {
			attributes[name] = text
		}
	}
	made := plainEvent{Attributes: attributes}
	if content := one.Data(); content != nil {
		made.Data = &data{Base64: &content}
	}
	return []plainEvent{made}, nil
}
