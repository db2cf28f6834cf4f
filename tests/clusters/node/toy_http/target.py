"""The toy protocol over HTTP."""

from toy_target import ToyTarget

TARGET = ToyTarget("http")
