"""The toy protocol over HTTP."""

from tests.clusters.node.toy_target import ToyTarget

TARGET = ToyTarget("http")
