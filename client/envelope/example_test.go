package envelope_test

import (
	"fmt"

	"github.com/warren-mq/warren/client/envelope"
)

func ExamplePacker() {
	var p envelope.Packer
	for _, m := range []envelope.Message{{ID: "1", Body: []byte("one")}, {ID: "2", Body: []byte("two")}} {
		if err := p.Add(&m); err != nil {
			fmt.Println(err) // ErrTooLarge: send what is packed first; ErrNotPackable: send this one by itself
		}
	}
	body, encoding := envelope.Compress(envelope.Zstd, p.Bytes())
	fmt.Printf("%d bytes, encoded as %q\n", len(body), encoding)

	pack, err := envelope.Decompress(encoding, body, 0)
	if err != nil {
		fmt.Println(err)
	}
	messages, err := envelope.Unpack(pack, envelope.Limits{})
	if err != nil {
		fmt.Println(err)
	}
	for _, m := range messages {
		fmt.Println(m.ID, string(m.Body))
	}
	// Output:
	// 30 bytes, encoded as ""
	// 1 one
	// 2 two
}
