// A Flight client in Go, for tests: it prints the rows and the last resume token of a command.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

func read(address, token, command string) (rows int64, last string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	client, err := flight.NewClientWithMiddlewareCtx(ctx, address, nil, nil,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		return 0, "", err
	}
	defer client.Close()
	descriptor := &flight.FlightDescriptor{Type: flight.DescriptorCMD, Cmd: []byte(command)}
	info, err := client.GetFlightInfo(ctx, descriptor)
	if err != nil {
		return 0, "", err
	}
	for _, endpoint := range info.Endpoint {
		stream, err := client.DoGet(ctx, endpoint.Ticket)
		if err != nil {
			return 0, "", err
		}
		reader, err := flight.NewRecordReader(stream)
		if err != nil {
			return 0, "", err
		}
		for {
			batch, err := reader.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return 0, "", err
			}
			rows += batch.NumRows()
			var found struct{ Resume string }
			if err := json.Unmarshal(reader.LatestAppMetadata(), &found); err != nil {
				return 0, "", err
			}
			last = found.Resume
		}
		reader.Release()
	}
	return rows, last, nil
}

func main() {
	rows, last, err := read(os.Args[1], os.Args[2], os.Args[3])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(rows, last)
}
