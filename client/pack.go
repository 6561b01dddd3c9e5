package warren

import (
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/client/envelope"
)

// units makes AMQP messages of a batch: most are one message each; those to a queue whose consumers unpack go together, as far as
// a pack's size allows. The order within a lane is kept. Of what may be packed, messages that were taken back are left out.
func (p *Publisher) units(batch []*Confirmation) []sent {
	out := make([]sent, 0, len(batch))
	open := map[*lane]int{} // the unit that a lane's next message may join
	sizes := map[*lane]int{}
	var packer envelope.Packer
	for _, c := range batch {
		l := c.lane
		if !l.packs {
			out = append(out, sent{one: c})
			continue
		}
		if !c.take() {
			l.settled(1)
			continue
		}
		inner := c.m.packed()
		size, err := packer.Size(&inner)
		if !packable(&c.m) || err != nil {
			delete(open, l) // what follows must not overtake it
			out = append(out, sent{one: c})
			continue
		}
		at, ok := open[l]
		if ok && sizes[l]+size <= p.cfg.maxBytes && out[at].first().m.Transient == c.m.Transient {
			out[at].many = append(out[at].many, c)
			sizes[l] += size
			continue
		}
		open[l], sizes[l] = len(out), size
		out = append(out, sent{many: []*Confirmation{c}})
	}
	return out
}

// packable tells whether a message may share its fate with others: the broker expires and orders whole packs.
func packable(m *Message) bool { return m.Priority == 0 && m.Expiration == 0 }

// encode makes the AMQP message of a unit that may be a pack, and returns what did not fit into it: readers have limits. The
// body may be the packer's and is good until that is used again. One message alone gains nothing by a pack and goes plain.
func (p *Publisher) encode(u *sent, packer *envelope.Packer) (rest []*Confirmation) {
	if u.one != nil {
		return nil
	}
	packer.Reset()
	for i, c := range u.many {
		inner := c.m.packed()
		// By itself it fits: its size was asked for before.
		if err := packer.Add(&inner); err != nil && i > 0 {
			u.many, rest = u.many[:i:i], u.many[i:]
			break
		}
	}
	first := u.many[0]
	if len(u.many) == 1 {
		u.one, u.many = first, nil
		if first.m.ContentEncoding == "" {
			first.m.Body, first.m.ContentEncoding = p.squeeze(first.m.Body)
		}
		return rest
	}
	body, encoding := p.squeeze(packer.Bytes())
	u.packed = &amqp.Publishing{
		MessageId:       newID(),
		ContentType:     envelope.ContentType,
		ContentEncoding: encoding,
		Headers:         amqp.Table{envelope.HeaderVersion: int64(envelope.Version), envelope.HeaderCount: int64(len(u.many))},
		DeliveryMode:    first.m.deliveryMode(),
		Body:            body,
	}
	return rest
}

// squeeze compresses where that was asked for and pays.
func (p *Publisher) squeeze(body []byte) ([]byte, string) {
	if p.cfg.codec == envelope.None {
		return body, ""
	}
	return envelope.Compress(p.cfg.codec, body, envelope.MinSize(p.cfg.compressFrom))
}

// compress the body of a message that will not be in a pack, on the caller's goroutine.
func (p *Publisher) compress(m *Message) {
	if m.ContentEncoding == "" && !p.cfg.pack[m.Queue] {
		m.Body, m.ContentEncoding = p.squeeze(m.Body)
	}
}
