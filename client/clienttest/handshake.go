package clienttest

import (
	"bytes"
	"crypto/tls"
	"net"
	"time"
)

func serverTLS(c net.Conn, config *tls.Config) net.Conn { return tls.Server(c, config) }

func (b *Broker) serverProperties() Table {
	return Table{
		"product": "RabbitMQ", "version": b.options.Version, "platform": "clienttest", "cluster_name": "clienttest",
		"capabilities": Table{
			"authentication_failure_close": true, "basic.nack": true, "connection.blocked": true, "consumer_cancel_notify": true,
			"exchange_exchange_bindings": true, "per_consumer_qos": true, "publisher_confirms": true,
		},
	}
}

// handleZero answers the methods of the connection itself.
func (c *conn) handleZero(f frame) *amqpError {
	if f.kind != frameMethod {
		return hard(codeUnexpectedFrame, "a frame of type %d on channel 0", f.kind)
	}
	a := cursor{b: f.payload}
	id := methodID(a.long())
	c.failing = id
	switch {
	case id == connectionStartOK && c.state == awaitStartOK:
		return c.onStartOK(&a)
	case id == connectionTuneOK && c.state == awaitTuneOK:
		return c.onTuneOK(&a)
	case id == connectionOpen && c.state == awaitOpen:
		return c.onOpen(&a)
	case id == connectionClose && c.state == running:
		for _, ch := range c.channels {
			ch.flushConfirms()
		}
		c.send(connectionCloseOK)
		_ = c.lastWords()
		return nil
	case id == connectionCloseOK:
		_ = c.lastWords()
		return nil
	}
	return hard(codeCommandInvalid, "method %d.%d is not expected now", id.class(), id.method())
}

func (c *conn) onStartOK(a *cursor) *amqpError {
	properties := a.table()
	mechanism, response := a.shortString(), a.longBytes()
	a.shortString()
	if a.bad {
		return syntaxError(connectionStartOK)
	}
	c.properties = properties
	c.able, _ = properties["capabilities"].(Table)
	c.name, _ = properties["connection_name"].(string)
	o := &c.broker.options
	user, password, known := credentials(mechanism, response)
	if !known || user != o.User || password != o.Password {
		c.broker.counters.AuthFailures++
		if !c.can("authentication_failure_close") {
			_ = c.lastWords()
			return nil
		}
		return hard(codeAccessRefused, "Login was refused using authentication mechanism %s. For details see the broker logfile.", mechanism)
	}
	c.user = user
	c.state = awaitTuneOK
	c.send(connectionTune, uint16(o.ChannelMax), uint32(o.FrameMax), uint16(o.Heartbeat/time.Second))
	return nil
}

// credentials understands both mechanisms of user and password.
func credentials(mechanism string, response []byte) (user, password string, ok bool) {
	switch mechanism {
	case "PLAIN":
		parts := bytes.Split(response, []byte{0})
		if len(parts) == 3 {
			return string(parts[1]), string(parts[2]), true
		}
	case "AMQPLAIN":
		a := cursor{b: append(appendLong(nil, uint32(len(response))), response...)}
		t := a.table()
		user, hasUser := t["LOGIN"].(string)
		password, hasPassword := t["PASSWORD"].(string)
		return user, password, hasUser && hasPassword && !a.bad
	}
	return "", "", false
}

func (c *conn) onTuneOK(a *cursor) *amqpError {
	channelMax, frameMax, heartbeat := int(a.short()), int(a.long()), a.short()
	o := &c.broker.options
	switch {
	case a.bad:
		return syntaxError(connectionTuneOK)
	case frameMax != 0 && frameMax < 4096:
		return hard(codeNotAllowed, "negotiated frame_max = %d is lower than the minimum allowed value (4096)", frameMax)
	case o.FrameMax > 0 && (frameMax == 0 || frameMax > o.FrameMax):
		return hard(codeNotAllowed, "negotiated frame_max = %d is higher than the maximum allowed value (%d)", frameMax, o.FrameMax)
	case o.ChannelMax > 0 && (channelMax == 0 || channelMax > o.ChannelMax):
		return hard(codeNotAllowed, "negotiated channel_max = %d is higher than the maximum allowed value (%d)", channelMax, o.ChannelMax)
	}
	c.frameMax, c.channelMax = frameMax, channelMax
	c.in.max = frameMax
	if frameMax == 0 {
		c.in.max = maxMessage + frameEdge
	}
	if c.heartbeat = time.Duration(heartbeat) * time.Second; c.heartbeat > 0 {
		c.sock.setIdle(2 * c.heartbeat)
		c.beats = time.AfterFunc(c.heartbeat/2, c.beat)
	}
	c.state = awaitOpen
	return nil
}

func (c *conn) onOpen(a *cursor) *amqpError {
	name := a.shortString()
	if a.bad {
		return syntaxError(connectionOpen)
	}
	if c.vhost = c.broker.vhosts[name]; c.vhost == nil {
		return hard(codeNotAllowed, "vhost %s not found", name)
	}
	c.state = running
	c.send(connectionOpenOK, "")
	return nil
}
