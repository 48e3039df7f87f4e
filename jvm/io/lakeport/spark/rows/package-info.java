/** Rows that Spark reads, without deleted ones and forbidden nulls. May use the files. */
package io.lakeport.spark.rows;
