/** Columns as files store them: names, types, filters. May use rows and files. */
package io.lakeport.spark.columns;
