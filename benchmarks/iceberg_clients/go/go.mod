module client

go 1.24

require github.com/apache/iceberg-go v0.7.0
