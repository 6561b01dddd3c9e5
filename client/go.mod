module github.com/warren-mq/warren/client

go 1.26.0
